package route

import "stackyard/internal/platform/db"

// ReadByID reads the resource whose id is in the path. An id that is not a UUID is not found.
func ReadByID[T any](r *Request, d *db.DB, segment, notFound string, byID func(q *db.Q, id string) (T, error)) (T, error) {
	id, err := r.PathID(segment, notFound)
	if err != nil {
		var none T
		return none, err
	}
	return db.ReadValue(r.Context(), d, func(q *db.Q) (T, error) { return byID(q, id) })
}

// ReadPage reads the requested page of a list, and converts every item to its view. list returns the items of a page
// and how many the list has.
func ReadPage[T, V any](r *Request, d *db.DB, list func(q *db.Q, limit, offset int) ([]T, int, error), view func(T) V) (Paged[V], error) {
	page, err := r.Page()
	if err != nil {
		return Paged[V]{}, err
	}
	var items []T
	var total int
	err = d.Read(r.Context(), func(q *db.Q) (err error) {
		items, total, err = list(q, page.Size, page.Offset())
		return err
	})
	return MapPage(items, page, total, view), err
}

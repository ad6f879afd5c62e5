package core

// OrNull returns a pointer to v, or nil for the zero value, which JSON shows as null.
func OrNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

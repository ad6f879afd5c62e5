package pages

import (
	"net/url"
	"strconv"
)

// On returns a Handler for what the path of a page names: load returns it, or an error for the error page.
func On[T any](load func(*Visit) (T, error), h func(*Visit, T) error) Handler {
	return func(v *Visit) error {
		loaded, err := load(v)
		if err != nil {
			return err
		}
		return h(v, loaded)
	}
}

// OnForm is On for a form, which is read after load.
func OnForm[T any](load func(*Visit) (T, error), h func(*Visit, T, url.Values) error) Handler {
	return On(load, func(v *Visit, loaded T) error {
		return WithForm(func(v *Visit, values url.Values) error { return h(v, loaded, values) })(v)
	})
}

// WithForm returns a Handler that reads the form of the request.
func WithForm(h func(*Visit, url.Values) error) Handler { return On((*Visit).ReadForm, h) }

// ListOf returns the page of a list of the API that the visitor requested, and links to the pages beside it.
func ListOf[T any](v *Visit, target string) (list []T, links []PageLink, err error) {
	page, err := v.Page()
	if err != nil {
		return nil, nil, err
	}
	query := url.Values{"page": {strconv.Itoa(page.Number)}, "per_page": {strconv.Itoa(page.Size)}}
	next, err := v.Call("GET", target+"?"+query.Encode(), nil, &list)
	return list, v.PageLinks(page, next.After, "Previous", "Next"), err
}

// Given returns the parameters in the query of the page that have one of these names and are not empty.
func (v *Visit) Given(names ...string) url.Values {
	given := url.Values{}
	for _, name := range names {
		if value := v.FormQuery(name); value != "" {
			given.Set(name, value)
		}
	}
	return given
}

// Text returns a text of the API that can be null.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Digits returns a number of the API that can be null.
func Digits(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

package pages

import (
	"fmt"
	"testing"
)

func TestPartsOf_FindsWhatChanged(t *testing.T) {
	const page = `<main><img src="x"><ul data-part="list"><li data-part="a">%s <br><b>x</b></li><li data-part="b">%s</li></ul><p data-part="when"><time datetime="t">%s</time></p></main>`
	before := PartsOf(fmt.Appendf(nil, page, "one", "two", "now"))
	for _, test := range []struct {
		name, page, want string
	}{
		{"nothing", fmt.Sprintf(page, "one", "two", "now"), ""},
		{"a relative time", fmt.Sprintf(page, "one", "two", "1 minute ago"), ""},
		{"outside of parts", "<p>hello</p>" + fmt.Sprintf(page, "one", "two", "now"), ""},
		{"a row", fmt.Sprintf(page, "one", "three", "now"), "b "},
		{"both rows", fmt.Sprintf(page, "1", "2", "now"), "a b "},
		{"the order", `<ul data-part="list"><li data-part="b">two</li><li data-part="a">one <br><b>x</b></li></ul>`, "list "},
		{"fewer rows", `<ul data-part="list"><li data-part="b">two</li></ul>`, "list "},
		{"unclosed elements", `<ul data-part="list"><li data-part="b">two`, ""},
	} {
		now := PartsOf([]byte(test.page))
		got := ""
		for _, p := range now.Since(before) {
			got += p.ID + " "
		}
		if got != test.want {
			t.Errorf("%s: changed are %q, want %q", test.name, got, test.want)
		}
		if same := now.Version() == before.Version(); test.name != "outside of parts" && test.name != "unclosed elements" && same != (test.want == "") {
			t.Errorf("%s: the version is the same: %v", test.name, same)
		}
	}
	if got := len(before.Since(nil)); got != 2 {
		t.Errorf("an unknown page gets %d parts", got)
	}
}

func FuzzPartsOf(f *testing.F) {
	f.Add(`<ul data-part="a"><li data-part="b">x</li></ul></div></p>`)
	f.Fuzz(func(t *testing.T, page string) {
		s := PartsOf([]byte(page))
		if len(s.Since(s)) != 0 {
			t.Error("it differs from itself")
		}
	})
}

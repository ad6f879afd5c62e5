package route

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stackyard/internal/platform/core"
)

func newRequest(target string) (*Request, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	s := &Server{public: "https://ci.test/prefix"}
	return &Request{Request: httptest.NewRequest("GET", target, nil), server: s, w: w}, w
}

func TestPage_RefusesWhatIsOutOfRange(t *testing.T) {
	for query, want := range map[string]Page{
		"":                    {Number: 1, Size: 30},
		"page=2":              {Number: 2, Size: 30},
		"per_page=100&page=7": {Number: 7, Size: 100},
	} {
		r, _ := newRequest("/x?" + query)
		if got, err := r.Page(); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", query, got, err, want)
		}
	}
	for _, query := range []string{"page=0", "page=-1", "page=x", "page=1.5", "per_page=0", "per_page=101", "per_page=ten", "page=99999999999999999999"} {
		r, _ := newRequest("/x?" + query)
		if _, err := r.Page(); core.KindOf(err) != core.BadRequest {
			t.Errorf("%q: %v, want a BadRequest", query, err)
		}
	}
}

func TestMapMore_LinksToTheNextPageWithoutCounting(t *testing.T) {
	for _, c := range []struct {
		page, rows int
		want       string
	}{
		{1, 2, ""},
		{1, 3, `<https://ci.test/prefix/v2/things?page=2>; rel="next"`},
		{2, 0, `<https://ci.test/prefix/v2/things?page=1>; rel="first", <https://ci.test/prefix/v2/things?page=1>; rel="prev"`},
	} {
		r, w := newRequest("/v2/things?page=" + strconv.Itoa(c.page))
		page := Page{Number: c.page, Size: 2}
		got := MapMore(make([]int, c.rows), page, strconv.Itoa)
		if want := min(c.rows, 2); len(got.Items) != want {
			t.Errorf("%d rows give %d items, want %d", c.rows, len(got.Items), want)
		}
		got.shape(r)
		if link := w.Header().Get("Link"); link != c.want {
			t.Errorf("page %d of %d rows: %s, want %s", c.page, c.rows, link, c.want)
		}
	}
}

func TestQueryList_TakesBrackets(t *testing.T) {
	r, _ := newRequest("/x?state[]=a&state=b&state%5B%5D=c&states[0]=d&stat=e")
	if got, err := r.QueryList("state"); err != nil || strings.Join(got, " ") != "a c b" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestQueryList_RefusesWhatItWouldIgnore(t *testing.T) {
	for _, query := range []string{"state[0]=a", "state[=a", "state[]]=a", "state[][]=a", "x=y" + strings.Repeat("&state[]=a", maxListed+1)} {
		r, _ := newRequest("/x?" + query)
		if got, err := r.QueryList("state"); core.KindOf(err) != core.BadRequest {
			t.Errorf("%.20q: %q, %v, want a BadRequest", query, got, err)
		}
	}
}

func TestPaged_LinksToThePagesThatExist(t *testing.T) {
	for _, c := range []struct {
		page, total int
		want        string
	}{
		{1, 0, ""},
		{1, 2, ""},
		{1, 5, `next=2 last=3`},
		{2, 5, `next=3 last=3 first=1 prev=1`},
		{3, 5, `first=1 prev=2`},
		{9, 5, `first=1 prev=3`},
	} {
		r, w := newRequest("/v2/things?per_page=2&name=a%2Cb%3Bc&page=" + strconv.Itoa(c.page))
		PageOf([]int{}, Page{Number: c.page, Size: 2}, c.total).shape(r)
		var got []string
		for entry := range strings.SplitSeq(w.Header().Get("Link"), ", ") {
			if entry == "" {
				continue
			}
			link, rel, _ := strings.Cut(entry, "; rel=")
			link = strings.Trim(link, "<>")
			if !strings.HasPrefix(link, "https://ci.test/prefix/v2/things?") || strings.ContainsAny(link, ",;") {
				t.Errorf("link %q", link)
			}
			u, err := url.Parse(link)
			if err != nil || u.Query().Get("name") != "a,b;c" {
				t.Errorf("link %q lost a filter (%v)", link, err)
			}
			got = append(got, strings.Trim(rel, `"`)+"="+u.Query().Get("page"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("page %d of %d: %v, want %s", c.page, c.total, got, c.want)
		}
	}
}

// A list with cursors is read to its end and back; no item is missed or seen twice.
func TestItemsOf_WalksBothWays(t *testing.T) {
	all := []int{1, 2, 3, 4, 5, 6, 7}
	key := func(i int) core.Cursor { return core.Cursor{strconv.Itoa(i)} }
	page := func(target string) Items[int] {
		r, _ := newRequest(target)
		p, err := r.CursorPage("numbers", 1)
		if err != nil {
			t.Fatal(err)
		}
		rows := slices.Clone(all)
		switch {
		case p.After != nil:
			at, _ := strconv.Atoi(p.After[0])
			rows = slices.DeleteFunc(rows, func(i int) bool { return i <= at })
		case p.Before != nil:
			at, _ := strconv.Atoi(p.Before[0])
			rows = slices.DeleteFunc(rows, func(i int) bool { return i >= at })
			slices.Reverse(rows)
		}
		return ItemsOf(r, p, rows[:min(len(rows), p.Limit())], key, func(i int) int { return i })
	}
	var forward, backward []int
	last := page("/x?per_page=3&state=a")
	for {
		forward = append(forward, last.Items...)
		if last.Links.Next == nil {
			break
		}
		if !strings.Contains(*last.Links.Next, "state=a") {
			t.Fatalf("%s lost a filter", *last.Links.Next)
		}
		last = page(strings.TrimPrefix(*last.Links.Next, "https://ci.test/prefix"))
	}
	for {
		backward = append(slices.Clone(last.Items), backward...)
		if last.Links.Prev == nil {
			break
		}
		last = page(strings.TrimPrefix(*last.Links.Prev, "https://ci.test/prefix"))
	}
	if !slices.Equal(forward, all) || !slices.Equal(backward, all) {
		t.Fatalf("forward %v, backward %v", forward, backward)
	}
}

func TestCursorPage_RefusesWhatCannotBeACursor(t *testing.T) {
	c := CursorPage{list: "things"}.Cursor(core.Cursor{"a"})
	foreign := CursorPage{list: "others"}.Cursor(core.Cursor{"a"})
	for _, query := range []string{
		"after=" + c + "&before=" + c, "after=nonsense", "before=nonsense", "per_page=101",
		"after=", "before=", "after=&before=" + c, "per_page=",
		"after=" + foreign, "before=" + foreign, "after=" + core.Cursor{"a"}.String(), "after=" + core.Cursor{"things"}.String(),
	} {
		r, _ := newRequest("/x?" + query)
		if _, err := r.CursorPage("things", 1); core.KindOf(err) != core.BadRequest {
			t.Errorf("%q: %v, want a BadRequest", query, err)
		}
	}
	r, _ := newRequest("/x?after=" + c)
	if p, err := r.CursorPage("things", 1); err != nil || !slices.Equal(p.After, core.Cursor{"a"}) {
		t.Errorf("its own cursor: %v, %v", p.After, err)
	}
}

// A page before the first item is empty, and links to the list.
func TestItemsOf_LeadsOnFromBeforeTheStart(t *testing.T) {
	key := func(i int) core.Cursor { return core.Cursor{strconv.Itoa(i)} }
	r, _ := newRequest("/x?per_page=3&state=a&before=" + CursorPage{list: "numbers"}.Cursor(key(1)))
	p, err := r.CursorPage("numbers", 1)
	if err != nil {
		t.Fatal(err)
	}
	page := ItemsOf(r, p, nil, key, strconv.Itoa)
	if want := "https://ci.test/prefix/x?per_page=3&state=a"; page.Links.Next == nil || *page.Links.Next != want || page.Links.Prev != nil {
		t.Errorf("links %+v, want next %s", page.Links, want)
	}
}

func TestTidy_ForgivesSlashes(t *testing.T) {
	for in, want := range map[string]string{
		"/":                 "/",
		"":                  "/",
		"/v3//metrics":      "/v3/metrics",
		"/v2/x/":            "/v2/x",
		"/v2/./x/../y":      "/v2/y",
		"/../../etc/passwd": "/etc/passwd",
		"/a%2Fb/":           "/a%2Fb",
	} {
		if got := tidy(in); got != want {
			t.Errorf("tidy(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestClientAddress_TrustsOnlyTrustedProxies(t *testing.T) {
	s := &Server{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "198.51.100.9", "192.0.2.1"},
		{"10.1.1.1:5", "198.51.100.9", "198.51.100.9"},
		{"10.1.1.1:5", "203.0.113.1, 198.51.100.9", "198.51.100.9"},
		{"10.1.1.1:5", "203.0.113.1, 198.51.100.9, 10.2.2.2", "198.51.100.9"},
		{"10.1.1.1:5", "garbage", "10.1.1.1"},
		{"[::ffff:10.1.1.1]:5", "198.51.100.9", "198.51.100.9"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": {c.forwarded}}}
		if got := s.clientAddress(r).String(); got != c.want {
			t.Errorf("%s forwarding %q: %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
}

package route

import (
	"mime"
	"strconv"
	"strings"
)

// extensions are path endings that choose a media type, regardless of the Accept header.
var extensions = map[string]string{".txt": "text/plain", ".html": "text/html", ".json": "application/json"}

// Accepts returns the offered media type that the request prefers: the one of its path ending, or the one with
// the highest q-value in its Accept header (RFC 9110, 12.5.1). Among equals an exact type wins over a wildcard,
// then the first in the header. A request that accepts none of them gets the first offered.
func (r *Request) Accepts(offered ...string) string {
	for extension, kind := range extensions {
		if strings.HasSuffix(r.URL.Path, extension) {
			return kind
		}
	}
	r.w.Header().Add("Vary", "Accept")
	ranges := parseAccept(strings.Join(r.Header.Values("Accept"), ","))
	best, chosen := mediaRange{}, offered[0]
	for _, kind := range offered {
		if m := covering(ranges, kind); m.q > 0 && m.betterThan(best) {
			best, chosen = m, kind
		}
	}
	return chosen
}

// A mediaRange is one entry of an Accept header.
type mediaRange struct {
	kind  string // for example text/plain, text/* or */*
	q     float64
	exact int // 2 for a type, 1 for text/*, 0 for */*
	place int // in the header, from 0
}

// betterThan reports whether a type that m covers is preferred to one that o covers.
func (m mediaRange) betterThan(o mediaRange) bool {
	switch {
	case m.q != o.q:
		return m.q > o.q
	case m.exact != o.exact:
		return m.exact > o.exact
	}
	return m.place < o.place
}

// covering returns the most specific entry that covers a media type; its q is 0 when there is none.
func covering(ranges []mediaRange, kind string) (most mediaRange) {
	main, _, _ := strings.Cut(kind, "/")
	found := false
	for _, m := range ranges {
		if covers := m.kind == kind || m.kind == main+"/*" || m.kind == "*/*"; covers && (!found || m.exact > most.exact) {
			most, found = m, true
		}
	}
	return most
}

// parseAccept parses an Accept header. It skips malformed entries.
func parseAccept(header string) []mediaRange {
	var ranges []mediaRange
	for entry := range strings.SplitSeq(header, ",") {
		kind, params, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		m := mediaRange{kind: kind, q: 1, exact: 2, place: len(ranges)}
		if text, ok := params["q"]; ok {
			if m.q, err = strconv.ParseFloat(text, 64); err != nil || !(m.q >= 0 && m.q <= 1) {
				continue
			}
		}
		switch {
		case kind == "*/*":
			m.exact = 0
		case strings.HasSuffix(kind, "/*"):
			m.exact = 1
		}
		ranges = append(ranges, m)
	}
	return ranges
}

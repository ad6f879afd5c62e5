package markdown

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// maxDepth is the maximum nesting of elements in a result.
const maxDepth = 100

// void are elements without an end tag.
var void = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// ends are the elements that end where another one starts.
var ends = map[string][]string{
	"p":  {"p"},
	"li": {"li"},
	"dt": {"dt", "dd"}, "dd": {"dt", "dd"},
	"td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"},
}

// tidy returns sanitized HTML in which every start tag has an end tag and vice versa. It refuses nesting deeper
// than maxDepth.
func tidy(text string) (string, error) {
	var b strings.Builder
	var open []string
	end := func() {
		b.WriteString("</" + open[len(open)-1] + ">")
		open = open[:len(open)-1]
	}
	tokens := html.NewTokenizer(strings.NewReader(text))
	for {
		kind := tokens.Next()
		switch kind {
		case html.ErrorToken: // the end
			for len(open) > 0 {
				end()
			}
			return b.String(), nil
		case html.StartTagToken, html.SelfClosingTagToken: // to a browser they are the same
			raw := string(tokens.Raw())
			tag, _ := tokens.TagName()
			name := string(tag)
			for len(open) > 0 && slices.Contains(ends[name], open[len(open)-1]) {
				end()
			}
			b.WriteString(raw)
			if slices.Contains(void, name) {
				continue
			}
			if open = append(open, name); len(open) > maxDepth {
				return "", errLimit
			}
		case html.EndTagToken:
			tag, _ := tokens.TagName()
			if at := lastIndex(open, string(tag)); at >= 0 {
				for len(open) > at {
					end()
				}
			}
		default:
			b.Write(tokens.Raw())
		}
	}
}

func lastIndex(list []string, one string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == one {
			return i
		}
	}
	return -1
}

package markdown

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// maxDepth is how deep elements of a result may be nested.
const maxDepth = 100

// void are elements that have no end.
var void = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// ends are the elements that end where another one begins.
var ends = map[string][]string{
	"p":  {"p"},
	"li": {"li"},
	"dt": {"dt", "dd"}, "dd": {"dt", "dd"},
	"td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"},
}

// tidy returns sanitized HTML in which every element that begins also ends, and none ends that did not begin.
// Deeper nesting than maxDepth is refused.
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

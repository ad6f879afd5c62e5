package logline

import "strings"

// linkURLs turns addresses in the text of cells into links.
func linkURLs(cells []cell) {
	for i := 0; i < len(cells); i++ {
		if cells[i].r != 'h' || cells[i].style.link != "" || !starts(cells[i:], "http://") && !starts(cells[i:], "https://") {
			continue
		}
		end := i
		for end < len(cells) && end-i < maxLink && inURL(cells[end].r) {
			end++
		}
		end = trimURL(cells, i, end)
		address := safeLink(textOf(cells[i:end]))
		if address == "" {
			i = max(i, end-1)
			continue
		}
		for j := i; j < end; j++ {
			if cells[j].image == "" && cells[j].style.link == "" {
				cells[j].style.link = address
			}
		}
		i = end - 1
	}
}

func starts(cells []cell, prefix string) bool {
	if len(cells) < len(prefix) {
		return false
	}
	for i, r := range prefix {
		if cells[i].r != r {
			return false
		}
	}
	return true
}

func inURL(r rune) bool { return r > ' ' && !strings.ContainsRune("\"'`<>|\\^{}", r) && r != 0x7f }

// trimURL leaves out punctuation that belongs to the sentence around an address.
func trimURL(cells []cell, from, end int) int {
	for end > from {
		switch last := cells[end-1].r; {
		case strings.ContainsRune(".,;:!?", last):
		case last == ')' && unbalanced(cells[from:end], '(', ')'), last == ']' && unbalanced(cells[from:end], '[', ']'):
		default:
			return end
		}
		end--
	}
	return end
}

func unbalanced(cells []cell, open, closing rune) bool {
	depth := 0
	for _, c := range cells {
		switch c.r {
		case open:
			depth++
		case closing:
			depth--
		}
	}
	return depth < 0
}

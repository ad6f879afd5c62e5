package markdown

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/yuin/goldmark-emoji/definition"
)

// maxInline is how much of a label is formatted. Longer ones are shown as they were written.
const maxInline = 4 << 10

// shortcode matches the name of an emoji between colons.
var shortcode = regexp.MustCompile(`:[a-zA-Z0-9_+-]{1,50}:`)

var emojis = sync.OnceValue(func() definition.Emojis { return definition.Github() })

// otherEmojis are names that labels of pipelines use besides those of GitHub, which has no pictures of tools.
var otherEmojis = map[string]string{
	"ansible": "🅰️", "apple": "🍎", "aws": "☁️", "bash": "🐚", "brakeman": "🛡️", "bundler": "💎", "cargo": "📦", "cypress": "🌲", "debian": "🌀", "docker": "🐳", "eslint": "🧹", "git": "🌿", "github": "🐙", "gitlab": "🦊",
	"go": "🐹", "golang": "🐹", "gradle": "🐘", "helm": "☸️", "java": "☕", "jest": "🃏", "k8s": "☸️", "kubernetes": "☸️", "linux": "🐧", "maven": "🪶", "node": "🟩", "nodejs": "🟩", "npm": "📦", "openapi": "📜",
	"php": "🐘", "pipeline": "📤", "playwright": "🎭", "postgres": "🐘", "postgresql": "🐘", "python": "🐍", "rails": "🛤️", "react": "⚛️", "redis": "🟥", "rspec": "💎", "rubocop": "👮", "ruby": "💎", "rust": "🦀", "sqlite": "🪶",
	"swift": "🐦", "terraform": "🏗️", "typescript": "🟦", "ubuntu": "🟠", "wheat": "🌾", "windows": "🪟", "yarn": "🧶",
}

// emoji returns the emoji with a name.
func emoji(name string) (text string, ok bool) {
	if e, ok := emojis().Get(name); ok && len(e.Unicode) > 0 {
		return string(e.Unicode), true
	}
	text, ok = otherEmojis[name]
	return text, ok
}

// Emoji replaces shortcodes such as :hammer: by the emojis they name. Unknown ones stay as they are.
func Emoji(text string) string {
	if strings.Count(text, ":") < 2 {
		return text
	}
	var out strings.Builder
	done := 0
	for done < len(text) {
		at := shortcode.FindStringIndex(text[done:])
		if at == nil {
			break
		}
		from, to := done+at[0], done+at[1]
		e, ok := emoji(strings.ToLower(text[from+1 : to-1]))
		if ok && (from == 0 || !inWord(text[from-1])) && (to == len(text) || !inWord(text[to])) {
			out.WriteString(text[done:from] + e)
			done = to
			continue
		}
		out.WriteString(text[done : to-1]) // the last colon may begin another one
		done = to - 1
	}
	out.WriteString(text[done:])
	return out.String()
}

func inWord(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// inlineMark matches what labels can contain: code, bold and italic text, and links.
var inlineMark = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\*([^*\\s][^*]*)\\*|\\b_([^_]+)_\\b|\\[([^\\]]+)\\]\\((https?://[^)\\s]+)\\)")

// Label returns the label of a step or a build as HTML: with emojis, code, bold and italic text. Labels are parts of
// links, so links in them are shown as text. It is cheap enough to be called when a page is rendered.
func Label(text string) string { return inline(text, false) }

// Prompt is Label for longer texts: links work, and lines stay lines.
func Prompt(text string) string {
	return strings.ReplaceAll(inline(strings.TrimSpace(text), true), "\n", "<br>\n")
}

func inline(text string, links bool) string {
	if len(text) > maxInline || !strings.ContainsAny(text, "`*_[:") {
		return html.EscapeString(text)
	}
	var out strings.Builder
	for text != "" {
		m := inlineMark.FindStringSubmatchIndex(text)
		if m == nil {
			break
		}
		out.WriteString(html.EscapeString(Emoji(text[:m[0]])))
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		formatted := func(i int) string { return html.EscapeString(Emoji(part(i))) }
		switch {
		case part(1) != "":
			out.WriteString("<code>" + html.EscapeString(part(1)) + "</code>")
		case part(2) != "":
			out.WriteString("<strong>" + formatted(2) + "</strong>")
		case part(3) != "":
			out.WriteString("<em>" + formatted(3) + "</em>")
		case part(4) != "":
			out.WriteString("<em>" + formatted(4) + "</em>")
		case links && validURL(part(6)):
			out.WriteString(`<a href="` + html.EscapeString(part(6)) + `" rel="noopener noreferrer nofollow">` + formatted(5) + "</a>")
		default:
			out.WriteString(formatted(5))
		}
		text = text[m[1]:]
	}
	out.WriteString(html.EscapeString(Emoji(text)))
	return out.String()
}

func validURL(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

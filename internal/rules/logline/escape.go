package logline

import (
	"bytes"
	"encoding/base64"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escape applies the sequence at the beginning of raw and returns its length. A sequence that does not end is
// dropped with the rest of the line.
func (r *Renderer) escape(raw []byte) int {
	n := sequenceLength(raw)
	if n < 2 {
		return n
	}
	switch raw[1] {
	case '[':
		if final := raw[n-1]; n > 2 && isFinal(final) {
			r.control(string(raw[2:n-1]), final)
		}
	case '_':
		body, _ := stringSequence(raw[2:])
		r.stamp = nextStamp(r.stamp, body)
	case ']':
		body, _ := stringSequence(raw[2:])
		r.command(body)
	}
	return n
}

// stringSequence returns the content of a sequence that ends with BEL or ESC \, and its length with the end.
func stringSequence(raw []byte) (body []byte, n int) {
	for i, c := range raw {
		if c == '\a' {
			return raw[:i], i + 1
		}
		if c == '\x1b' {
			if i+1 < len(raw) && raw[i+1] == '\\' {
				return raw[:i], i + 2
			}
			return raw[:i], i
		}
	}
	return raw, len(raw)
}

// control applies a sequence of ESC [, parameters and a final byte.
func (r *Renderer) control(parameters string, final byte) {
	if len(parameters) > 256 {
		return
	}
	n := 1
	if v, err := strconv.Atoi(strings.TrimSuffix(parameters, ";")); err == nil && v >= 0 {
		n = min(v, MaxLine)
	}
	switch final {
	case 'm':
		r.style.apply(parameters)
	case 'K':
		r.erase(parameters)
	case 'G':
		r.move(n - 1)
	case 'C':
		r.move(r.at + max(1, n))
	case 'D':
		r.move(r.at - max(1, n))
	case 'P': // delete characters
		if r.at < len(r.cells) && r.charge(len(r.cells)-r.at) {
			r.cells = append(r.cells[:r.at], r.cells[min(len(r.cells), r.at+max(1, n)):]...)
		}
	}
}

// erase erases from the cursor to the end, up to the cursor, or the whole line.
func (r *Renderer) erase(parameters string) {
	switch parameters {
	case "", "0":
		if r.at < len(r.cells) {
			r.cells = r.cells[:r.at]
		}
	case "1":
		if !r.charge(r.at) {
			return
		}
		for i := range min(r.at+1, len(r.cells)) {
			r.cells[i] = cell{r: ' '}
		}
	case "2":
		r.cells = r.cells[:0]
	}
}

// nextStamp returns the time in a sequence like bk;t=1700000000000, or with dt the difference to the time before.
func nextStamp(stamp int64, body []byte) int64 {
	fields, ok := bytes.CutPrefix(body, []byte("bk;"))
	if !ok || len(fields) > 64 {
		return stamp
	}
	const most = 1 << 43 // the year 2248, in milliseconds
	for len(fields) > 0 {
		var field []byte
		field, fields, _ = bytes.Cut(fields, []byte(";"))
		name, value, _ := bytes.Cut(field, []byte("="))
		n, ok := parseNumber(value)
		switch {
		case !ok || n > most:
		case string(name) == "t":
			stamp = n
		case string(name) == "dt" && stamp > 0 && stamp+n < most:
			stamp += n
		}
	}
	return stamp
}

// parseNumber parses up to 18 digits.
func parseNumber(digits []byte) (n int64, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(digits) > 0 && len(digits) <= 18
}

// command applies an operating system command: links, and images in the line.
func (r *Renderer) command(body []byte) {
	number, rest, _ := bytes.Cut(body, []byte(";"))
	if len(rest) > maxSequence && string(number) != "1337" {
		return
	}
	switch string(number) {
	case "8": // 8;parameters;address
		_, address, _ := bytes.Cut(rest, []byte(";"))
		r.style.link = safeLink(string(address))
	case "1337":
		if image := inlineImage(rest); image != "" {
			r.put(cell{image: image, style: style{link: r.style.link}})
		}
	case "1338", "1339": // an image or a link at an address
		fields := fieldsOf(string(rest))
		address := safeLink(fields["url"])
		label := first(fields["content"], fields["alt"], fields["url"])
		if label == "" {
			return
		}
		if string(number) == "1338" && strings.HasPrefix(address, ArtifactScheme) {
			r.put(cell{image: `<img alt="` + html.EscapeString(label) + `" src="` + html.EscapeString(address) + `" loading="lazy">`, style: style{link: address}})
			return
		}
		before := r.style
		r.style.link = address
		for _, char := range label {
			r.put(cell{r: char, style: r.style})
		}
		r.style = before
	}
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// fieldsOf parses name=value;name='value'.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			break
		}
		var value string
		if quote := strings.IndexAny(rest, `'"`); quote == 0 {
			value, rest, _ = strings.Cut(rest[1:], rest[:1])
			rest = strings.TrimPrefix(rest, ";")
		} else {
			value, rest, _ = strings.Cut(rest, ";")
		}
		fields[strings.TrimSpace(name)] = value
		text = rest
	}
	return fields
}

// ArtifactScheme begins the addresses of artifacts of the same build. Pages replace them by addresses of this server.
const ArtifactScheme = "artifact://"

// safeLink returns an address if it is text that leads to a web page, to mail or to an artifact, and "" otherwise.
func safeLink(address string) string {
	if len(address) > maxLink || !utf8.ValidString(address) {
		return ""
	}
	if path, ok := strings.CutPrefix(address, ArtifactScheme); ok { // a path, which need not be a valid URL
		if path == "" || strings.ContainsFunc(path, unicode.IsControl) {
			return ""
		}
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		if u.Host == "" {
			return ""
		}
		return address
	case "mailto":
		return address
	}
	return ""
}

// inlineImage returns the element of an image in the log: File=name=BASE64;inline=1:BASE64.
func inlineImage(body []byte) string {
	options, data, ok := bytes.Cut(body, []byte(":"))
	if !ok || len(data) > maxImage || len(options) > maxSequence {
		return ""
	}
	fields := fieldsOf(strings.TrimPrefix(string(options), "File="))
	content, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil || fields["inline"] != "1" {
		return ""
	}
	kind := http.DetectContentType(content)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return ""
	}
	name := "image"
	if decoded, err := base64.StdEncoding.DecodeString(fields["name"]); err == nil && len(decoded) > 0 {
		name = strings.ToValidUTF8(string(decoded), "\uFFFD")
	}
	return `<img alt="` + html.EscapeString(name) + `" src="data:` + kind + `;base64,` + base64.StdEncoding.EncodeToString(content) + `">`
}

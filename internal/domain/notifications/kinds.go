package notifications

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// A kind is the type of a setting. read returns the value of non-null JSON, or the rule that it breaks. Rules do not
// quote values that can be secret.
type kind interface {
	read(raw json.RawMessage) (value any, broken string)
	// schema describes the values in JSON schema.
	schema() map[string]any
}

// text is a non-blank single-line string.
type text struct {
	max     int
	pattern *regexp.Regexp // nil: any text
	form    string         // the rule to show when the pattern does not match
	header  bool           // sent as an HTTP header value
}

func (k text) schema() map[string]any { return map[string]any{"type": "string", "maxLength": k.max} }

func (k text) read(raw json.RawMessage) (any, string) {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, "must be a string"
	}
	switch {
	case strings.TrimSpace(s) == "":
		return nil, "cannot be blank"
	case utf8.RuneCountInString(s) > k.max:
		return nil, fmt.Sprintf("must have at most %d characters", k.max)
	case k.pattern != nil && !k.pattern.MatchString(s):
		return nil, k.form
	case strings.ContainsFunc(s, unicode.IsControl):
		return nil, "must be one line without control characters"
	case k.header && (!isASCII(s) || s != strings.TrimSpace(s)):
		return nil, "must have only ASCII characters, and no space around it"
	case k.header && strings.HasPrefix(s, masking):
		return nil, "is masked; send the value itself, or leave it out to keep it"
	}
	return s, ""
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

// choice is one of several strings.
type choice []string

func (k choice) schema() map[string]any { return map[string]any{"type": "string", "enum": []string(k)} }

func (k choice) read(raw json.RawMessage) (any, string) {
	var s string
	if json.Unmarshal(raw, &s) != nil || !slices.Contains(k, s) {
		return nil, "must be one of " + strings.Join(k, ", ")
	}
	return s, ""
}

// flag is true or false.
type flag struct{}

func (flag) schema() map[string]any { return map[string]any{"type": "boolean"} }

func (flag) read(raw json.RawMessage) (any, string) {
	var b bool
	if json.Unmarshal(raw, &b) != nil {
		return nil, "must be true or false"
	}
	return b, ""
}

// integer is an integer in a range.
type integer struct{ min, max int }

func (k integer) schema() map[string]any {
	return map[string]any{"type": "integer", "minimum": k.min, "maximum": k.max}
}

func (k integer) read(raw json.RawMessage) (any, string) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < k.min || n > k.max {
		return nil, fmt.Sprintf("must be an integer from %d to %d", k.min, k.max)
	}
	return n, ""
}

// address is an absolute http or https URL. IP addresses are checked at delivery, after name resolution.
type address struct{}

// maxAddress is the length of the longest URL, in bytes.
const maxAddress = 2048

func (address) schema() map[string]any { return map[string]any{"type": "string", "format": "uri"} }

func (address) read(raw json.RawMessage) (any, string) {
	const form = "must be an http or https URL, such as https://example.com/hook"
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, "must be a string"
	}
	if s == "" {
		return nil, "cannot be blank"
	}
	if len(s) > maxAddress {
		return nil, fmt.Sprintf("must have at most %d bytes", maxAddress)
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, form
	}
	if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, form
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, form
		}
	}
	switch {
	case u.User != nil:
		return nil, "must have no user name and no password, because everybody who manages notification services sees the URL"
	case strings.Contains(s, "#"):
		return nil, "must have no fragment"
	}
	return s, ""
}

// sender is an e-mail address, with or without a name.
type sender struct{}

func (sender) schema() map[string]any { return map[string]any{"type": "string", "maxLength": 255} }

func (sender) read(raw json.RawMessage) (any, string) {
	value, broken := text{max: 255}.read(raw)
	if broken != "" {
		return nil, broken
	}
	if _, err := mail.ParseAddress(value.(string)); err != nil {
		return nil, "must be an e-mail address, such as ci@example.com or Stackyard <ci@example.com>"
	}
	return value, ""
}

// names is a list of known event names; duplicates are dropped.
type names []string

func (k names) schema() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []string(k)}}
}

func (k names) read(raw json.RawMessage) (any, string) {
	var given []*string // pointers detect null
	if json.Unmarshal(raw, &given) != nil || slices.Contains(given, nil) {
		return nil, "must be an array of strings"
	}
	list := []string{}
	for _, name := range given {
		switch {
		case !slices.Contains(k, *name):
			return nil, fmt.Sprintf("has %.50q, which is not an event; the events are %s", *name, strings.Join(k, ", "))
		case !slices.Contains(list, *name):
			list = append(list, *name)
		}
	}
	return list, ""
}

// texts is a list of single-line strings.
type texts struct {
	most int // items
	item text
}

func (k texts) schema() map[string]any {
	return map[string]any{"type": "array", "items": k.item.schema(), "maxItems": k.most}
}

func (k texts) read(raw json.RawMessage) (any, string) {
	var given []json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		return nil, "must be an array of strings"
	}
	if len(given) > k.most {
		return nil, fmt.Sprintf("must have at most %d items", k.most)
	}
	list := make([]string, len(given))
	for i, raw := range given {
		value, broken := k.item.read(raw)
		if broken != "" {
			return nil, "has an item that " + broken
		}
		list[i] = value.(string)
	}
	return list, ""
}

// pairs is an object of strings.
type pairs struct {
	most    int  // pairs
	max     int  // characters of a value
	headers bool // sent as HTTP headers
}

// maxKey is the length of the longest key of pairs, in characters.
const maxKey = 255

// ownHeaders are headers that deliveries set themselves.
var ownHeaders = []string{"connection", "content-encoding", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade"}

func (k pairs) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "maxProperties": k.most}
}

func (k pairs) read(raw json.RawMessage) (any, string) {
	var given map[string]*string // pointers detect null
	if json.Unmarshal(raw, &given) != nil || given == nil {
		return nil, "must be an object whose values are strings"
	}
	if len(given) > k.most {
		return nil, fmt.Sprintf("must have at most %d keys", k.most)
	}
	values := make(map[string]string, len(given))
	folded := make(map[string]bool, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		switch {
		case value == nil:
			return nil, fmt.Sprintf("must be an object whose values are strings, but %.50q is null", key)
		case strings.TrimSpace(key) == "" || utf8.RuneCountInString(key) > maxKey:
			return nil, fmt.Sprintf("has a key that is blank or has more than %d characters", maxKey)
		case utf8.RuneCountInString(*value) > k.max:
			return nil, fmt.Sprintf("has a value of more than %d characters for %.50q", k.max, key)
		case k.headers && !httpguts.ValidHeaderFieldName(key):
			return nil, fmt.Sprintf("has %.50q, which is not a valid HTTP header name", key)
		case k.headers && !httpguts.ValidHeaderFieldValue(*value):
			return nil, fmt.Sprintf("has a value for %.50q that is not a valid HTTP header value", key)
		case k.headers && slices.Contains(ownHeaders, strings.ToLower(key)):
			return nil, fmt.Sprintf("has %.50q, which is set by the delivery itself", key)
		case k.headers && folded[strings.ToLower(key)]:
			return nil, fmt.Sprintf("has the header %.50q twice", key)
		}
		values[key] = *value
		folded[strings.ToLower(key)] = true
	}
	return values, ""
}

// either is a text or a value of another kind.
type either struct {
	text  text
	other kind
}

func (k either) schema() map[string]any {
	return map[string]any{"anyOf": []any{k.text.schema(), k.other.schema()}}
}

func (k either) read(raw json.RawMessage) (any, string) {
	if raw[0] == '"' {
		return k.text.read(raw)
	}
	value, broken := k.other.read(raw)
	if strings.HasPrefix(broken, "must be a") {
		broken = "must be a string, or " + strings.TrimPrefix(broken, "must be ")
	}
	return value, broken
}

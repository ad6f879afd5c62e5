package route

// maxValues is the maximum number of values in a request body. Many small values need much more memory than
// their text.
const maxValues = 200_000

// tooMany reports whether a JSON text has more values than a number. Each but the first follows a comma, a
// colon or an opening bracket.
func tooMany(body []byte, most int) bool {
	if len(body) <= most {
		return false
	}
	inString := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == ':' || c == '['):
			most--
		}
		if most < 0 {
			return true
		}
	}
	return false
}

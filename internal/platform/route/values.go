package route

// maxValues is how many values a request body may hold, all told. What is decoded takes many times the
// memory of its text where that is all small values.
const maxValues = 200_000

// tooMany reports whether a JSON text holds more values than a number. Each but the first comes after a
// comma, a colon or an opening bracket.
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

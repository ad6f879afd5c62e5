package joblog

import (
	"math"
	"strconv"
	"strings"

	"stackyard/internal/platform/core"
)

var (
	errNotText = core.Errorf(core.BadRequest, "A Range needs the header Accept: text/plain")
	errRange   = core.Errorf(core.BadRequest, "Range must be bytes=-N, for the last N bytes of the log, where N is larger than 0")
)

// parseRange parses a Range header, which can only request the last bytes. It returns their number, or 0
// without a header.
func parseRange(header string) (int64, error) {
	if header == "" {
		return 0, nil
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(header), "bytes=-")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" || strings.Trim(digits, "0") == "" {
		return 0, errRange
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil { // too many digits: more than any log has
		n = math.MaxInt64
	}
	return n, nil
}

package message

import "fmt"

// Size returns a number of bytes for people: "41.2 GB".
func Size(bytes int64) string {
	value, unit := float64(bytes), "bytes"
	for _, larger := range []string{"KB", "MB", "GB", "TB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1000, larger
	}
	if unit == "bytes" {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

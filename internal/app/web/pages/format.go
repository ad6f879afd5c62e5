package pages

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// when returns a relative time, for example "4 min ago", with the exact time as a tooltip.
func (s *Site) when(t time.Time) template.HTML {
	exact := t.UTC().Format("2 January 2006, 15:04 UTC")
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339), exact, distance(s.Clock(), t)))
}

// distance formats the time between now and t: near times as a duration, others as a date.
func distance(now, t time.Time) string {
	ahead := t.After(now)
	d := now.Sub(t).Abs()
	var words string
	switch {
	case d < time.Minute && !ahead:
		return "just now"
	case d < time.Minute:
		words = "a minute"
	case d < time.Hour:
		words = Count(int(d/time.Minute), "minute")
	case d < 24*time.Hour:
		words = Count(int(d/time.Hour), "hour")
	case d < 14*24*time.Hour:
		words = Count(int(d/(24*time.Hour)), "day")
	default:
		return "on " + t.UTC().Format("2 January 2006")
	}
	if ahead {
		return "in " + words
	}
	return words + " ago"
}

// Count returns a number with its unit, for example "1 job" or "2 jobs".
func Count(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// browsers and systems map parts of user agents to names. The first match wins.
var browsers = [][2]string{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"Firefox/", "Firefox"},
	{"Chrome/", "Chrome"}, {"Safari/", "Safari"},
}

var systems = [][2]string{
	{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
}

// browserName returns a short name of a browser. Other programs are shown with their first token, for example
// "curl/8.5.0".
func browserName(userAgent string) string {
	find := func(known [][2]string) string {
		for _, k := range known {
			if strings.Contains(userAgent, k[0]) {
				return k[1]
			}
		}
		return ""
	}
	browser, system := find(browsers), find(systems)
	if !strings.HasPrefix(userAgent, "Mozilla/") || browser == "" {
		browser, _, _ = strings.Cut(userAgent, " ")
		system = ""
	}
	switch {
	case browser == "":
		return "an unknown program"
	case system == "":
		return browser
	default:
		return browser + " on " + system
	}
}

// ran returns how long something took, or has taken so far.
func (s *Site) ran(from, to time.Time) template.HTML {
	if to.IsZero() {
		return template.HTML(fmt.Sprintf(`<time data-since="%d" datetime="%s">%s</time>`, from.UnixMilli(), from.UTC().Format(time.RFC3339), Length(s.Clock().Sub(from))))
	}
	return template.HTML(Length(to.Sub(from)))
}

// Length formats a duration in its two largest units.
func Length(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	default:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
}

// clock formats a time of day, with seconds.
func clock(t time.Time) template.HTML {
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, t.UTC().Format(time.RFC3339Nano), t.UTC().Format("2 January 2006, 15:04:05.000 UTC"), t.UTC().Format("15:04:05")))
}

// Size formats a number of bytes with about three digits.
func Size(n int64) string {
	value := float64(n)
	for _, unit := range []string{"bytes", "KiB", "MiB", "GiB"} {
		switch {
		case value >= 1024 && unit != "GiB":
			value /= 1024
		case unit == "bytes":
			return Count(int(n), "byte")
		default:
			digits := strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64)
			return digits + " " + unit
		}
	}
	return ""
}

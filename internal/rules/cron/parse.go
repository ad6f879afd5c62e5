package cron

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones, also where the system has none
)

// MaxLength is the longest line, in bytes.
const MaxLength = 255

// words are the shorthands for cron lines.
var words = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// A field describes one of the five fields.
type field struct {
	name     string
	min, max int
	names    []string // of the numbers from first
	first    int
}

var (
	minuteField  = field{name: "minute", max: 59}
	hourField    = field{name: "hour", max: 23}
	dayField     = field{name: "day of the month", min: 1, max: 31}
	monthField   = field{name: "month", min: 1, max: 12, first: 1, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}}
	weekdayField = field{name: "weekday", max: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
)

// Parse reads a cron line. The error is a sentence without a subject, like "has an hour 25; hours are 0 to 23".
func Parse(text string) (*Line, error) {
	if len(text) > MaxLength {
		return nil, fmt.Errorf("must have at most %d characters", MaxLength)
	}
	if strings.Contains(text, "~") {
		return nil, errors.New(`cannot contain "~"; give the time at which it runs`)
	}
	parts := strings.Fields(text)
	if len(parts) == 0 {
		return nil, errors.New("is required")
	}
	if strings.HasPrefix(parts[0], "@") {
		line, ok := words[strings.ToLower(parts[0])]
		if !ok {
			return nil, fmt.Errorf("has an unknown word %q; it can be @hourly, @daily, @midnight, @weekly, @monthly or @yearly", parts[0])
		}
		parts = append(strings.Fields(line), parts[1:]...)
	}
	l := &Line{zone: time.UTC}
	var err error
	switch len(parts) {
	case 5:
	case 6:
		if l.zone, err = parseZone(parts[5]); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf(`must have five fields (minute, hour, day of the month, month, weekday) and optionally a time zone, for example "0 9 * * MON-FRI Europe/Berlin"; it has %d`, len(parts))
	}
	for _, f := range []struct {
		field field
		dst   *set
		text  string
	}{{minuteField, &l.minutes, parts[0]}, {hourField, &l.hours, parts[1]}, {monthField, &l.months, parts[3]}} {
		if *f.dst, err = f.field.parse(f.text); err != nil {
			return nil, err
		}
	}
	if l.days, err = parseDays(parts[2]); err != nil {
		return nil, err
	}
	if l.weekdays, err = parseWeekdays(parts[4]); err != nil {
		return nil, err
	}
	return l, nil
}

var offsetZone = regexp.MustCompile(`^([+-])(\d\d):(\d\d)$`)

// parseZone reads an IANA name or an offset.
func parseZone(text string) (*time.Location, error) {
	if m := offsetZone.FindStringSubmatch(text); m != nil {
		hours, _ := strconv.Atoi(m[2])
		minutes, _ := strconv.Atoi(m[3])
		seconds := hours*3600 + minutes*60
		if seconds > 14*3600 || minutes > 59 {
			return nil, fmt.Errorf("has a time zone %q; an offset is at most 14 hours", text)
		}
		if m[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone(text, seconds), nil
	}
	if zone, err := time.LoadLocation(text); err == nil && text != "Local" {
		return zone, nil
	}
	return nil, fmt.Errorf("has an unknown time zone %q; it can be a name like Europe/Berlin or an offset like +02:00 (there is no field for seconds)", text)
}

// An item is one part of a list: a range with a step.
type item struct {
	from, to, step int
	all            bool   // "*"
	rest           string // after "%"
}

// parse reads a field whose numbers do not depend on the month. Ranges can wrap around: 22-2 are the hours 22, 23, 0,
// 1 and 2.
func (f field) parse(text string) (s set, err error) {
	for part := range strings.SplitSeq(text, ",") {
		it, err := f.item(part)
		if err != nil {
			return 0, err
		}
		if it.rest != "" {
			return 0, fmt.Errorf("has the %s %q; only weekdays can have %%", f.name, part)
		}
		s |= f.expand(it)
	}
	return s, nil
}

// expand returns the numbers of an item.
func (f field) expand(it item) (s set) {
	size := f.max - f.min + 1
	if it.to < it.from {
		it.to += size
	}
	for n := it.from; n <= it.to; n += it.step {
		s |= 1 << (f.min + (n-f.min)%size)
	}
	return s
}

// item reads one part of a list.
func (f field) item(text string) (it item, err error) {
	body, rest, hasRest := strings.Cut(text, "%")
	if hasRest {
		if rest == "" {
			return it, fmt.Errorf("has the %s %q; a number of weeks must follow %%", f.name, text)
		}
		it.rest = rest
	}
	body, step, hasStep := strings.Cut(body, "/")
	it.step = 1
	if hasStep {
		if it.step, err = number(step); err != nil || it.step < 1 || it.step > f.max {
			return it, fmt.Errorf("has the %s %q; a step is a number from 1 to %d", f.name, text, f.max)
		}
	}
	if body == "*" {
		it.from, it.to, it.all = f.min, f.max, !hasStep
		return it, nil
	}
	from, to, isRange := cutRange(body)
	if it.from, err = f.number(from, text); err != nil {
		return it, err
	}
	it.to = it.from
	switch {
	case isRange:
		it.to, err = f.number(to, text)
	case hasStep && it.from < 0:
		it.to = -1
	case hasStep:
		it.to = f.max
	}
	return it, err
}

// cutRange splits "a-b". A minus sign at the beginning of a or b belongs to the number.
func cutRange(text string) (from, to string, ok bool) {
	if text == "" {
		return "", "", false
	}
	i := strings.IndexByte(text[1:], '-')
	if i < 0 {
		return text, "", false
	}
	return text[:i+1], text[i+2:], true
}

// number reads a number or a name of the field. Days of the month can be negative.
func (f field) number(text, whole string) (int, error) {
	lower := strings.ToLower(text)
	for i, name := range f.names {
		if lower == name {
			return f.first + i, nil
		}
	}
	digits, negative := text, false
	if f.name == dayField.name {
		if lower == "l" || lower == "last" {
			return -1, nil
		}
		digits, negative = strings.CutPrefix(text, "-")
	}
	n, err := number(digits)
	if err != nil || n < f.min || n > f.max {
		return 0, fmt.Errorf("has the %s %q; %s", f.name, whole, f.hint())
	}
	if negative {
		n = -n
	}
	return n, nil
}

// hint describes the numbers of the field.
func (f field) hint() string {
	switch {
	case f.name == dayField.name:
		return "it can be a number from 1 to 31, L for the last day, or from -1 (the last day) to -31"
	case f.names != nil:
		return fmt.Sprintf("it can be a number from %d to %d or a name like %s", f.min, f.max, strings.ToUpper(f.names[1]))
	}
	return fmt.Sprintf("it can be a number from %d to %d, a range like %d-%d, or a step like */5", f.min, f.max, f.min+1, f.min+5)
}

var errNumber = errors.New("not a number")

// number reads up to four digits.
func number(text string) (n int, err error) {
	if text == "" || len(text) > 4 {
		return 0, errNumber
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, errNumber
		}
		n = n*10 + int(c-'0')
	}
	return n, nil
}

// parseDays reads the days of the month; nil is any.
func parseDays(text string) (days []dayRange, err error) {
	isAny := false
	for part := range strings.SplitSeq(text, ",") {
		it, err := dayField.item(part)
		if err != nil {
			return nil, err
		}
		if it.rest != "" {
			return nil, fmt.Errorf("has the day of the month %q; only weekdays can have %%", part)
		}
		if sameSign := it.from < 0 == (it.to < 0); sameSign && it.to < it.from {
			return nil, fmt.Errorf("has the day of the month %q, which ends before it begins", part)
		}
		isAny = isAny || it.all
		days = append(days, dayRange{it.from, it.to, it.step})
	}
	if isAny {
		return nil, nil
	}
	return days, nil
}

// maxWeeks bounds the number of weeks after %.
const maxWeeks = 520

// parseWeekdays reads the weekdays; nil is any. 7 is Sunday, like 0.
func parseWeekdays(text string) (rules []weekdayRule, err error) {
	isAny := false
	for part := range strings.SplitSeq(text, ",") {
		it, err := weekdayField.item(part)
		if err != nil {
			return nil, err
		}
		if it.all {
			it.to = 6
		}
		r := weekdayRule{days: weekdays(it), every: 1}
		if it.rest != "" {
			if r.every, r.shift, err = parseWeeks(it.rest); err != nil {
				return nil, fmt.Errorf("has the weekday %q; %w", part, err)
			}
		}
		isAny = isAny || it.all && it.rest == ""
		rules = append(rules, r)
	}
	if isAny {
		return nil, nil
	}
	return rules, nil
}

// weekdays returns the weekdays of an item. As the end of a range, Sunday comes after Saturday.
func weekdays(it item) (s set) {
	from, to := it.from, it.to
	if to < from {
		to += 7
	}
	for n := from; n <= to; n += it.step {
		s |= 1 << (n % 7)
	}
	return s
}

// parseWeeks reads what follows %: a number of weeks, and optionally + or - and an offset.
func parseWeeks(text string) (every, shift int, err error) {
	count, offset, hasOffset := text, "", false
	sign := 1
	if i := strings.IndexAny(text, "+-"); i >= 0 {
		count, offset, hasOffset = text[:i], text[i+1:], true
		if text[i] == '-' {
			sign = -1
		}
	}
	if every, err = number(count); err != nil || every < 1 || every > maxWeeks {
		return 0, 0, fmt.Errorf("a number of weeks from 1 to %d must follow %%", maxWeeks)
	}
	if hasOffset {
		if shift, err = number(offset); err != nil || shift > maxWeeks {
			return 0, 0, fmt.Errorf("an offset is a number of weeks from 0 to %d", maxWeeks)
		}
	}
	return every, sign * shift, nil
}

// Package cron reads cron lines and computes when they run next. It is pure.
//
// A line has five fields (minute, hour, day of the month, month, weekday) or a word like @daily, and optionally a time
// zone, UTC unless given. Parse explains what is wrong in a sentence for people.
//
// Clock changes: a line whose hour field matches every hour follows real time, so it runs in both passes of an hour
// that is repeated in autumn, and leaves out an hour that is skipped in spring. Every other line runs once for each
// time of day that it names: in the first of two passes, and at the moment of the change instead of a time that is
// skipped. See [Line.Next].
package cron

import (
	"math/bits"
	"time"
)

// A Line is a cron line.
type Line struct {
	minutes  set
	hours    set
	months   set
	days     []dayRange // of the month; nil: any
	weekdays []weekdayRule
	zone     *time.Location
}

// A set is a set of small numbers.
type set uint64

func (s set) has(n int) bool { return s&(1<<n) != 0 }

// everyHour is the set of all hours.
const everyHour set = 1<<24 - 1

// A dayRange are days of a month. Negative numbers count from its end: -1 is the last day.
type dayRange struct{ from, to, step int }

// has reports whether a day of a month with a number of days is in the range.
func (r dayRange) has(day, length int) bool {
	from, to := r.from, r.to
	if from < 0 {
		from += length + 1
	}
	if to < 0 {
		to += length + 1
	}
	return from <= day && day <= to && (day-from)%r.step == 0
}

// A weekdayRule are weekdays, in all weeks or in some.
type weekdayRule struct {
	days         set // 0 is Sunday
	every, shift int // weeks whose number leaves the remainder shift when divided by every
}

// has reports whether a day is in the rule.
func (r weekdayRule) has(weekday time.Weekday, week int) bool {
	return r.days.has(int(weekday)) && mod(week-r.shift, r.every) == 0
}

// mod returns the remainder of a division, which is never negative.
func mod(a, n int) int { return (a%n + n) % n }

// firstDay is the first day of week 1. It is a Tuesday.
var firstDay = time.Date(2019, time.January, 1, 0, 0, 0, 0, time.UTC)

// weekOf returns the number of the week of a day, given as midnight in UTC.
func weekOf(day time.Time) int {
	days := int(day.Sub(firstDay) / (24 * time.Hour))
	return (days-mod(days, 7))/7 + 1
}

// Zone returns the time zone of the line.
func (l *Line) Zone() *time.Location { return l.zone }

// onDay reports whether the line runs on a day, given as midnight in UTC. If both days of the month and weekdays are
// restricted, either is enough.
func (l *Line) onDay(day time.Time) bool {
	if !l.months.has(int(day.Month())) {
		return false
	}
	inMonth, onWeekday := l.onMonthDay(day), l.onWeekday(day)
	if l.days != nil && l.weekdays != nil {
		return inMonth || onWeekday
	}
	return inMonth && onWeekday
}

func (l *Line) onMonthDay(day time.Time) bool {
	length := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for _, r := range l.days {
		if r.has(day.Day(), length) {
			return true
		}
	}
	return l.days == nil
}

func (l *Line) onWeekday(day time.Time) bool {
	week := weekOf(day)
	for _, r := range l.weekdays {
		if r.has(day.Weekday(), week) {
			return true
		}
	}
	return l.weekdays == nil
}

// searchYears is how far ahead Next searches: long enough for any combination of leap days and weekdays.
const searchYears = 50

// Next returns the first time after t at which the line runs, or the zero time if there is none within 50 years.
func (l *Line) Next(t time.Time) time.Time {
	t = t.In(l.zone)
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	for end := day.AddDate(searchYears, 0, 0); day.Before(end); day = day.AddDate(0, 0, 1) {
		if !l.onDay(day) {
			continue
		}
		next := l.nextOn(day, t)
		if !next.IsZero() {
			return next.UTC()
		}
	}
	return time.Time{}
}

// Upcoming returns the first n times after t at which the line runs; fewer if there are not as many.
func (l *Line) Upcoming(t time.Time, n int) []time.Time {
	times := make([]time.Time, 0, n)
	for len(times) < n {
		if t = l.Next(t); t.IsZero() {
			break
		}
		times = append(times, t)
	}
	return times
}

// nextOn returns the first time after t at which the line runs on a day that it matches; the zero time if there is
// none.
func (l *Line) nextOn(day, t time.Time) time.Time {
	if l.hours == everyHour {
		return l.nextMinute(day, t)
	}
	for hours := l.hours; hours != 0; hours &= hours - 1 {
		hour := bits.TrailingZeros64(uint64(hours))
		for minutes := l.minutes; minutes != 0; minutes &= minutes - 1 {
			at := firstInstant(day, hour, bits.TrailingZeros64(uint64(minutes)), l.zone)
			if at.After(t) {
				return at
			}
		}
	}
	return time.Time{}
}

// nextMinute is nextOn for a line that runs in every hour: it follows real time.
func (l *Line) nextMinute(day, t time.Time) time.Time {
	at := firstInstant(day, 0, 0, l.zone)
	end := firstInstant(day.AddDate(0, 0, 1), 0, 0, l.zone)
	if !at.After(t) {
		at = t.Truncate(time.Minute).Add(time.Minute)
	}
	for ; at.Before(end); at = at.Add(time.Minute) {
		if local := at.In(l.zone); l.minutes.has(local.Minute()) && local.Day() == day.Day() {
			return at
		}
	}
	return time.Time{}
}

// firstInstant returns the first moment at which the clocks of a zone show a time of a day or, if they skip it, the
// moment at which they skip it.
func firstInstant(day time.Time, hour, minute int, zone *time.Location) time.Time {
	at := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, zone)
	wall := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, time.UTC)
	start, end := at.ZoneBounds()
	switch shown := wallOf(at); {
	case shown.After(wall):
		return start
	case shown.Before(wall):
		return end
	}
	if start.IsZero() {
		return at
	}
	// The clocks may have shown it before the last change as well.
	_, before := start.Add(-time.Second).Zone()
	earlier := wall.Add(-time.Duration(before) * time.Second).In(zone)
	if earlier.Before(start) && wallOf(earlier).Equal(wall) {
		return earlier
	}
	return at
}

// wallOf returns what clocks show at a moment, as a time in UTC.
func wallOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

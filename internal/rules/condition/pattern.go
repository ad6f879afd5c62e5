package condition

import "regexp/syntax"

// Regular expressions are short to write and can be large to compile: a class like \pL has hundreds of ranges,
// and a repetition copies what it repeats.
const (
	maxPattern     = 1_000  // bytes of one regular expression
	maxPatternCost = 10_000 // cost of all regular expressions of a condition
)

// patternCost estimates how many instructions and ranges a regular expression compiles to. It returns a number
// above maxPatternCost if there are too many.
func patternCost(source string) (int, error) {
	if len(source) > maxPattern {
		return maxPatternCost + 1, nil
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return costOf(parsed), nil
}

func costOf(re *syntax.Regexp) int {
	cost := 0
	for _, sub := range re.Sub {
		cost += costOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		cost *= max(re.Min, re.Max, 1)
	}
	return min(cost+max(1, len(re.Rune)), maxPatternCost+1)
}

package definition

import "regexp/syntax"

// Regular expressions are short to write and can be large to compile: a class such as \pL has
// hundreds of ranges, and a repetition copies what it repeats.
const (
	maxPattern  = 1_000  // bytes of one regular expression in a condition
	maxPatterns = 10_000 // the weight of those of one condition
	// maxAllPatterns is the weight of all regular expressions of a definition.
	maxAllPatterns = 200_000
)

// patternWeight returns about how many instructions and ranges a regular expression compiles to, or
// a number above maxPatterns when they are too many.
func patternWeight(source string) (int, error) {
	if len(source) > maxPattern {
		return maxPatterns + 1, nil
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return weigh(parsed), nil
}

func weigh(re *syntax.Regexp) int {
	weight := 0
	for _, sub := range re.Sub {
		weight += weigh(sub)
	}
	if re.Op == syntax.OpRepeat {
		weight *= max(re.Min, re.Max, 1)
	}
	return min(weight+max(1, len(re.Rune)), maxPatterns+1)
}

package pages

import "testing"

func TestChart_StacksPartsWithinItsHeight(t *testing.T) {
	for _, counts := range [][3]int{{1, 1000, 0}, {1000, 1, 1}, {333, 333, 333}, {}} {
		c := NewChart("", 1, SparkHeight)
		c.Add(0, []Share{{"bad", counts[0]}, {"good", counts[1]}, {"none", counts[2]}}, counts[0]+counts[1]+counts[2], "", "")
		bottom := SparkHeight
		for _, part := range c.Columns[0].Parts {
			if part.Y+part.Height != bottom || part.Y < 0 || part.Height < 0 {
				t.Errorf("%+v: the part %+v does not stand on the one before, at %d", counts, part, bottom)
			}
			bottom = part.Y
		}
		if counts[0] > 0 && c.Columns[0].Parts[0].Height < minPart {
			t.Errorf("%+v: failures are not seen", counts)
		}
	}
}

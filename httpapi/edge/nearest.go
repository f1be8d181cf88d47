package edge

import (
	"strings"
	"unicode/utf8"
)

// nearest is the known name that was probably meant by name: the one with the fewest letters to
// insert, remove or replace, at most a third of them, ignoring case. "" when none is as near.
func nearest(name string, known []string) string {
	if utf8.RuneCountInString(name) > maxNamed {
		return ""
	}
	best, fewest := "", maxNamed
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		if d <= (len(k)+2)/3 && d < fewest {
			best, fewest = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance in characters.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1) // from the characters of a so far to each beginning of b
	for j := range row {
		row[j] = j
	}
	for i, c := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, d := range to {
			replaced := diagonal
			if c != d {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

// KnownNames is the sentence that lists the names that would do, of members
// ("Members") or parameters, the nearest to the name that was sent first. It never
// repeats that name.
func KnownNames(what, name string, known []string) string {
	s := ""
	if near := nearest(name, known); near != "" {
		s = " Did you mean " + near + "?"
	}
	if len(known) == 0 {
		return s + " There are no " + strings.ToLower(what) + " here."
	}
	return s + " " + what + " here: " + strings.Join(known, ", ") + "."
}

package prose

import "strings"

const (
	// maxTypos is how many letters a mistyped word may differ in.
	maxTypos = 2
	// maxWord bounds the words that are compared: longer ones are no typing error
	// of anything here, and comparing takes the product of the lengths.
	maxWord = 64
)

// Nearest returns the names that somebody who wrote word most likely meant, in
// the order of names, or none. Upper and lower case count as the same letter. A
// short word may differ in less than half of its letters.
func Nearest(word string, names []string) []string {
	var found []string
	least := min(maxTypos, (len(word)-1)/2)
	for _, name := range names {
		d := distance(strings.ToLower(word), strings.ToLower(name))
		if d < least {
			found, least = nil, d
		}
		if d == least {
			found = append(found, name)
		}
	}
	return found
}

// DidYouMean is a question to append to a refusal, or nothing.
func DidYouMean(word string, names []string) string {
	if near := Nearest(word, names); len(near) > 0 {
		return "; did you mean " + Either(near) + "?"
	}
	return ""
}

// distance counts the letters to add, drop, change or swap with their neighbour
// to turn a into b.
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return maxWord
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

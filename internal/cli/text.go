package cli

import (
	"cmp"
	"strings"
)

func first(values ...string) string { return cmp.Or(values...) }

func compareText(a, b string) int { return cmp.Compare(a, b) }

// nonNil makes an empty list print as [] and not as null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// short shows the first digits of a digest, enough to tell apart.
func short(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return hex[:12]
}

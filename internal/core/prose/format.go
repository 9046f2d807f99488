package prose

import (
	"fmt"
	"strings"
)

// Format is Sprintf with parts that are left out: what stands in brackets is said only if none of its values
// is empty. "moved[ by %s][: %s]" reads "moved", "moved by ann", or "moved by ann: the disk is full".
func Format(format string, args ...any) string {
	var kept strings.Builder
	var values []any
	for format != "" {
		part, rest, optional := strings.Cut(format, "[")
		n := verbs(part)
		kept.WriteString(part)
		values, args = append(values, args[:n]...), args[n:]
		if !optional {
			break
		}
		part, format, _ = strings.Cut(rest, "]")
		n = verbs(part)
		if all(args[:n]) {
			kept.WriteString(part)
			values = append(values, args[:n]...)
		}
		args = args[n:]
	}
	return fmt.Sprintf(kept.String(), values...)
}

// verbs counts the values that a format takes.
func verbs(format string) int { return strings.Count(strings.ReplaceAll(format, "%%", ""), "%") }

func all(values []any) bool {
	for _, v := range values {
		if fmt.Sprint(v) == "" {
			return false
		}
	}
	return true
}

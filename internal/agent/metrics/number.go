package metrics

import (
	"bytes"
	"math"
	"math/bits"
)

// parseUint reads a whole field of decimal digits; what does not fit in 64 bits
// becomes the greatest value.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = addSat(mulSat(n, 10), uint64(c-'0'))
	}
	return n, true
}

// parseMilli reads a decimal such as 0.15 as thousandths; further digits are dropped.
func parseMilli(b []byte) (uint64, bool) {
	whole, part, _ := bytes.Cut(b, []byte("."))
	n, ok := parseUint(whole)
	if !ok {
		return 0, false
	}
	n = mulSat(n, 1000)
	for i, weight := 0, uint64(100); i < len(part); i, weight = i+1, weight/10 {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		n = addSat(n, uint64(part[i]-'0')*weight)
	}
	return n, true
}

func addSat(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

func mulSat(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

// share returns part of whole in thousandths, at most 1000. It is false for an
// empty whole.
func share(part, whole uint64) (int64, bool) {
	if whole == 0 {
		return 0, false
	}
	part = min(part, whole)
	hi, lo := bits.Mul64(part, 1000)
	q, _ := bits.Div64(hi, lo, whole)
	return int64(q), true
}

// nextLine cuts the first line off.
func nextLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// nextField cuts the first field that blanks separate off; it is empty at the end.
func nextField(b []byte) (field, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\t' {
		j++
	}
	return b[i:j], b[j:]
}

// fieldAt returns field n of a line, counted from zero.
func fieldAt(line []byte, n int) []byte {
	field, rest := nextField(line)
	for ; n > 0; n-- {
		field, rest = nextField(rest)
	}
	return field
}

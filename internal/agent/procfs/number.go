package procfs

import (
	"bytes"
	"math"
	"math/bits"
)

// Uint reads a whole field of decimal digits; what does not fit in 64 bits
// becomes the greatest value.
func Uint(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = Add(Mul(n, 10), uint64(c-'0'))
	}
	return n, true
}

// Milli reads a decimal such as 0.15 as thousandths; further digits are dropped.
func Milli(b []byte) (uint64, bool) {
	whole, part, _ := bytes.Cut(b, []byte("."))
	n, ok := Uint(whole)
	if !ok {
		return 0, false
	}
	n = Mul(n, 1000)
	for i, weight := 0, uint64(100); i < len(part); i, weight = i+1, weight/10 {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		n = Add(n, uint64(part[i]-'0')*weight)
	}
	return n, true
}

// Add adds; the greatest value stands for what does not fit.
func Add(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

// Mul multiplies; the greatest value stands for what does not fit.
func Mul(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return math.MaxUint64
}

// Line cuts the first line off.
func Line(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// Field cuts the first field that blanks separate off; it is empty at the end.
func Field(b []byte) (field, rest []byte) {
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

// FieldAt returns field n of a line, counted from zero.
func FieldAt(line []byte, n int) []byte {
	field, rest := Field(line)
	for ; n > 0; n-- {
		field, rest = Field(rest)
	}
	return field
}

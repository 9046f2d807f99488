package strictyaml

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strings"
)

// FloatType is the type of the floats that JSON has not: nan, inf and -inf.
const FloatType = "!float"

// core is the core schema of YAML 1.2.2 (section 10.3.2): what a scalar without quotes is, with all
// its digits. The first row that matches counts, and what none matches is a text.
var core = []struct {
	tag   string
	is    *regexp.Regexp
	value func(string) any
}{
	{"!!null", regexp.MustCompile(`^(|~|null|Null|NULL)$`), func(string) any { return nil }},
	{"!!bool", regexp.MustCompile(`^(true|True|TRUE)$`), func(string) any { return true }},
	{"!!bool", regexp.MustCompile(`^(false|False|FALSE)$`), func(string) any { return false }},
	{"!!int", regexp.MustCompile(`^[-+]?[0-9]+$`), func(s string) any { return integer(s, 10) }},
	{"!!int", regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`), func(s string) any { return integer(s, 0) }},
	{"!!float", regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`), float},
	{"!!float", regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`), func(s string) any {
		word := strings.ToLower(strings.Trim(s, "+."))
		return map[string]any{FloatType: strings.Replace(word, "-.", "-", 1)}
	}},
}

// PlainTag is the tag of a scalar without quotes.
func PlainTag(s string) string {
	for _, c := range core {
		if c.is.MatchString(s) {
			return c.tag
		}
	}
	return "!!str"
}

// Plain is the value of a scalar without quotes in the normal form of nodes.
func Plain(s string) any {
	for _, c := range core {
		if c.is.MatchString(s) {
			return c.value(s)
		}
	}
	return s
}

// integer is a whole number. One that JSON writes alike stays as it is, and so does such a float: what counts with
// the digits takes the square of their number.
func integer(s string, base int) any {
	if base == 10 && json.Valid([]byte(s)) {
		return json.Number(s)
	}
	i, is := new(big.Int).SetString(s, base)
	if !is {
		return s
	}
	return json.Number(i.String())
}

func float(s string) any {
	if json.Valid([]byte(s)) {
		return json.Number(s)
	}
	sign, digits := "", strings.TrimPrefix(s, "+")
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	mantissa, exponent, power := strings.Cut(strings.ToLower(digits), "e")
	whole, part, _ := strings.Cut(mantissa, ".")
	out := sign + zero(strings.TrimLeft(whole, "0")) + "." + zero(part)
	if power {
		out += "e" + exponent
	}
	return json.Number(out)
}

func zero(digits string) string {
	if digits == "" {
		return "0"
	}
	return digits
}

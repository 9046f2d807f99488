package nodeconfig

import (
	"encoding/json"
	"strconv"
	"strings"
)

// normal writes numbers in one way each.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		return spelt(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v { // order-free: each by itself
			out[k] = normal(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(e)
		}
		return out
	}
	return v
}

// Spelling is the one spelling of a number in the normal form.
func Spelling(n json.Number) string { return string(spelt(n)) }

// spelt is the one spelling of a number. It changes no digit that counts: a device may have
// numbers that no machine's float has. A literal without point and exponent is an integer, all
// others are floats and stay so.
func spelt(n json.Number) json.Number {
	if !isFloat(n) {
		if n == "-0" {
			return "0"
		}
		return n // JSON has one spelling of each
	}
	short := shortest(n)
	if !isFloat(short) {
		return short + ".0"
	}
	return short
}

func isFloat(n json.Number) bool { return strings.ContainsAny(string(n), ".eE") }

// maxExponent bounds the exponents that are counted with, on machines of 32 bits too. A number
// beyond stays as it is written.
const maxExponent = 1 << 30

// shortest is a number with no digit more than it takes, whole ones without a point.
func shortest(n json.Number) json.Number {
	sign, mantissa, power := "", strings.ToLower(string(n)), 0
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	mantissa, exponent, is := strings.Cut(mantissa, "e")
	if is {
		var err error
		if power, err = strconv.Atoi(exponent); err != nil || power > maxExponent || power < -maxExponent {
			return n
		}
	}
	whole, part, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+part, "0")
	power -= len(part)
	short := strings.TrimRight(digits, "0")
	power += len(digits) - len(short)
	switch point := len(short) + power; {
	case short == "":
		return json.Number(sign + "0")
	case power >= 0 && point <= 21:
		return json.Number(sign + short + strings.Repeat("0", power))
	case power < 0 && point > 0:
		return json.Number(sign + short[:point] + "." + short[point:])
	case power < 0 && point > -6:
		return json.Number(sign + "0." + strings.Repeat("0", -point) + short)
	}
	return json.Number(sign + short + "e" + strconv.Itoa(power))
}

// Fold is what a device does not tell apart.
type Fold struct {
	// Nulls are members that are null: the device takes them for absent.
	Nulls bool
	// Numbers are whole floats: the device has one type of number, in which 1.0 is 1.
	Numbers bool
}

// Config is a config with what the device does not tell apart in one form. It is idempotent.
func (f Fold) Config(config json.RawMessage) (json.RawMessage, error) {
	v, err := Decode(config)
	if err != nil {
		return nil, err
	}
	return encode(f.value(v)), nil
}

// value is a decoded value so. Elements of a list that are null stay: the others would move.
func (f Fold) value(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !f.Numbers {
			return v
		}
		if n := shortest(v); n != "-0" {
			return n
		}
		return json.Number("0")
	case map[string]any:
		for k, e := range v { // order-free: each by itself
			if e == nil && f.Nulls {
				delete(v, k)
			} else {
				v[k] = f.value(e)
			}
		}
	case []any:
		for i := range v {
			v[i] = f.value(v[i])
		}
	}
	return v
}

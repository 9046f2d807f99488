package table

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// RequestHost brings the Host of a request to the form of Route.Host: no port,
// lower case, no trailing dot. It fails on what no client may send.
func RequestHost(host string) (string, error) {
	name, err := withoutPort(host)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "[") {
		return addressHost(name)
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return name, checkHost(name)
}

// withoutPort takes ":PORT" off, which may be empty, and nothing else.
func withoutPort(host string) (string, error) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return host, nil
	}
	port := host[i+1:]
	if len(port) > 5 || strings.ContainsFunc(port, func(c rune) bool { return c < '0' || c > '9' }) {
		return "", fmt.Errorf("%q has no valid port", host)
	}
	return host[:i], nil
}

// addressHost reads "[IPv6]" and writes it in its one form, with brackets.
func addressHost(s string) (string, error) {
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil || !strings.HasSuffix(s, "]") || !a.Is6() || a.Zone() != "" {
		return "", fmt.Errorf("%q is not an IPv6 address in brackets", s)
	}
	return "[" + a.String() + "]", nil
}

// routeHost brings what a person wrote to the form that requests carry.
func routeHost(s string) (string, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Is6() {
		s = "[" + s + "]"
	}
	if strings.HasPrefix(s, "[") {
		return addressHost(s)
	}
	if strings.Contains(s, "*") {
		return "", fmt.Errorf("%q has a wildcard: write one route for each host name, or leave host out for any", s)
	}
	if strings.Contains(s, ":") {
		return "", fmt.Errorf("%q has a port: write the name alone, the router listens on its own ports", s)
	}
	labels := strings.Split(strings.ToLower(strings.TrimSuffix(s, ".")), ".")
	for i, l := range labels {
		ascii, err := toASCII(l)
		if err != nil {
			return "", fmt.Errorf("%q: %w", s, err)
		}
		labels[i] = ascii
	}
	name := strings.Join(labels, ".")
	return name, checkHost(name)
}

func checkHost(name string) error {
	if name == "" || len(name) > 253 {
		return fmt.Errorf("a host name has 1 to 253 characters, this one has %d", len(name))
	}
	for l := range strings.SplitSeq(name, ".") {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return fmt.Errorf("%q is not a host name: each part has 1 to 63 characters and no '-' at its ends", name)
		}
		for _, c := range []byte(l) {
			if !alphanumeric(c) && c != '-' && c != '_' {
				return fmt.Errorf("%q is not a host name: %q cannot be in it", name, c)
			}
		}
	}
	return nil
}

// toASCII writes a label outside ASCII in its xn-- form. Labels that would need
// Unicode's mapping tables are refused: a wrong guess would be another host.
func toASCII(label string) (string, error) {
	ascii := true
	for _, r := range label {
		if r < 0x80 {
			continue
		}
		ascii = false
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || compatibility(r) {
			return "", fmt.Errorf("the part %q has %q: write it in its xn-- form", label, r)
		}
	}
	if ascii {
		return label, nil
	}
	enc, err := punycode([]rune(label))
	if err != nil {
		return "", err
	}
	return "xn--" + enc, nil
}

// compatibility holds the ranges whose letters stand for others (ligatures,
// full width, mathematical, conjoining), and the sharp s, which the two
// versions of IDNA treat differently.
func compatibility(r rune) bool {
	return r == 'ß' || r == 'ς' || r >= 0xF900 || 0x1100 <= r && r <= 0x11FF || 0x2000 <= r && r <= 0x2BFF ||
		r >= 0x3130 && r <= 0x318F || r == 'ŀ' || r == 'ŉ' || r == 'ſ' || 0x01C4 <= r && r <= 0x01CC || 0x01F1 <= r && r <= 0x01F3 ||
		0x02B0 <= r && r <= 0x02FF || r == 'ª' || r == 'º'
}

// punycode is RFC 3492, section 6.3, with the parameters of IDNA.
func punycode(in []rune) (string, error) {
	const base, tMin, tMax, skew, damp = 36, 1, 26, 38, 700
	if len(in) > 63 {
		return "", errors.New("a part of a host name has at most 63 characters")
	}
	var out strings.Builder
	for _, r := range in {
		if r < 0x80 {
			out.WriteRune(r)
		}
	}
	basic := out.Len()
	if basic > 0 {
		out.WriteByte('-')
	}
	n, delta, bias := rune(0x80), 0, 72
	for done := basic; done < len(in); {
		next := rune(unicode.MaxRune)
		for _, r := range in {
			if r >= n && r < next {
				next = r
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range in {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tMin), tMax)
				if q < t {
					break
				}
				out.WriteByte(digit(t + (q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			out.WriteByte(digit(q))
			bias = adapt(delta, done+1, done == basic, base, tMin, tMax, skew, damp)
			delta = 0
			done++
		}
		delta++
		n++
	}
	return out.String(), nil
}

func adapt(delta, points int, first bool, base, tMin, tMax, skew, damp int) int {
	if first {
		delta /= damp
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for ; delta > (base-tMin)*tMax/2; k += base {
		delta /= base - tMin
	}
	return k + (base-tMin+1)*delta/(delta+skew)
}

func digit(n int) byte {
	if n < 26 {
		return byte('a' + n)
	}
	return byte('0' + n - 26)
}

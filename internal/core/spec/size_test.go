package spec

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "512m": 512 << 20, "2GiB": 2 << 30, "1KB": 1 << 10, "-1": -1, "3t": 3 << 40} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "m", "1.5g", "12x", "-2", "99999999t", "1mm"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

package nodeconfig

import (
	"strings"
	"testing"
)

// TestReplace: values are found in maps and in both kinds of lists, references as a whole.
func TestReplace(t *testing.T) {
	r := &Rules{Sets: map[string]string{"users": "name"}, Secrets: []string{"users/*/pin", "keys/*", "auth"}}
	config := `{"users":[{"name":"u","pin":1}],"keys":["a","b"],"auth":{"x":"y","z":{"$secret":"n"}},"password":"p","plain":["q"]}`
	var seen []string
	out, err := r.Replace([]byte(config), func(path []string, v any) (any, error) {
		if !r.IsSecret(path, v) {
			return v, nil
		}
		seen = append(seen, Field(path))
		return "gone", nil
	})
	if err != nil || strings.Join(seen, " ") != "auth/x auth/z keys/0 keys/1 password users/u/pin" {
		t.Errorf("replaced %v, %v", seen, err)
	}
	if want := `{"auth":{"x":"gone","z":"gone"},"keys":["gone","gone"],"password":"gone","plain":["q"],"users":[{"name":"u","pin":"gone"}]}`; string(out) != want {
		t.Errorf("it is %s", out)
	}
}

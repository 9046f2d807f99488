package caddy

import (
	"encoding/json"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/nodesdk"
)

// headers are those whose values are secrets, in lower case.
var headers = map[string]bool{"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true, "salt": true}

// schemes begin the values of such headers wherever they stand.
var schemes = []string{"bearer ", "basic "}

// Redact implements nodesdk.Redactor: modules may stand at any depth, and Caddy returns their
// secrets in clear. What stands below a name that says so is hidden, with all below it.
func (d *Driver) Redact(it nodesdk.Item, digest func(string) string) nodesdk.Item {
	v, err := nodeconfig.Decode(it.Config)
	if err != nil {
		return it
	}
	if raw, err := json.Marshal(redacted(v, false, digest)); err == nil {
		it.Config = raw
	}
	return it
}

func redacted(v any, hide bool, digest func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v { // order-free: each by itself
			v[k] = redacted(e, hide || secretName(k), digest)
		}
	case []any:
		for i, e := range v {
			v[i] = redacted(e, hide, digest)
		}
	case string:
		if v != "" && !nodeconfig.IsDigest(v) && (hide || secretValue(v)) {
			return digest(v)
		}
	}
	return v
}

func secretName(name string) bool {
	low := strings.ToLower(name)
	return headers[low] || secret.Likely(low, "") || strings.HasSuffix(low, "-key") || strings.HasSuffix(low, "_key")
}

func secretValue(v string) bool {
	low := strings.ToLower(v)
	for _, s := range schemes {
		if strings.HasPrefix(low, s) {
			return true
		}
	}
	return secret.Likely("", v)
}

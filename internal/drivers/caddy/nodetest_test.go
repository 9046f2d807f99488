package caddy

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// site answers with a body, and passes on what comes with the token.
func site(port int, body, token string) json.RawMessage {
	routes := fmt.Sprintf(`[{"handle":[{"handler":"static_response","body":%q}]}]`, body)
	if token != "" {
		routes = fmt.Sprintf(`[{"handle":[{"handler":"headers","request":{"set":{"Authorization":[%q]}}},{"handler":"static_response","body":%q}]}]`, token, body)
	}
	return json.RawMessage(fmt.Sprintf(`{"automatic_https":{"disable":true},"listen":["127.0.0.1:%d"],"routes":%s}`, port, routes))
}

// TestConformance runs the suite on Debian's Caddy, one of its own for each case.
func TestConformance(t *testing.T) {
	t.Parallel()
	p := testkit.Ports(t, "tcp", 206)
	nodetest.Run(t, nodetest.Harness{
		Start: device,
		Examples: []nodetest.Example{
			{Kind: "flow", ID: "shop", Config: site(p[0], "shop", "Bearer of-the-shop"), Edited: site(p[1], "the shop", "Bearer of-the-shop"), Secret: "routes/0/handle/0/request/set/Authorization/0"},
			{Kind: "flow", ID: "news_1.example", Config: site(p[2], "news", ""), Edited: site(p[2], "no news", "")},
		},
		Many: func(n int) json.RawMessage { return site(p[5+n], "", "") },
	})
}

func device(t *testing.T) *nodetest.Device {
	s := start(t)
	return &nodetest.Device{
		Driver:       s.driver(),
		Collections:  Collections,
		EditByAPI:    func(_, id string, config json.RawMessage) error { return s.setByAPI(id, config) },
		EditByFile:   func(_, id string, config json.RawMessage) error { return s.setByFile(id, config) },
		Restart:      func() error { return s.restart(true) },
		RestartEmpty: func() error { return s.restart(false) },
		BusyPort: func(t *testing.T) nodetest.Example {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return nodetest.Example{Kind: "flow", ID: "busy", Config: site(l.Addr().(*net.TCPAddr).Port, "", "")}
		},
		Partial: func() error { s.loseNext.Store(true); return nil },
		Break: func() (func() error, error) {
			s.broken.Store(true)
			return func() error { s.broken.Store(false); return nil }, nil
		},
	}
}

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestServerMoves is docs/moving.md: a release lists the address that the server is going to
// have, the host accepts it, the server stops and starts there on the same data folder, and
// the host comes by itself; a restart of its agent, which is given no address, does not lose
// it.
func TestServerMoves(t *testing.T) {
	t.Parallel()
	y := newYard(t, testkit.Value(os.Executable())(t), victim)
	before, after := y.where.Server, testkit.FreeAddr(t)
	y.push(y.estate.release("v1", declare{"fleet.yaml": strings.Replace(compatFleet(victim), "hosts:", "servers: ["+before+", https://"+after+"]\nhosts:", 1),
		"bundles/web/bundle.yaml": killBundle("v1")}))
	is := func(server string) func() bool {
		return func() bool {
			h, err := y.client.Host(t.Context(), victim)
			return err == nil && h.Online && h.Server == server && h.Accepted == 1
		}
	}
	testkit.Eventually(t, "the host accepts both addresses", is(before))
	y.server.stop()
	y.listen = after
	y.startServer()
	conn := readContext(t, y.where.Context)
	y.client.Close()
	y.client = testkit.Value(operator.NewClient(operator.Options{URL: y.where.Operator, Token: conn.Token, ServerCA: []byte(conn.CA)}))(t)
	testkit.Eventually(t, "the host comes to the new address", func() bool {
		h, err := y.client.Host(t.Context(), victim)
		return err == nil && h.Online && h.Server == "https://"+after
	})
	y.agents[victim].kill()
	y.startAgent(victim)
	testkit.Eventually(t, "a new agent comes to the new address", is("https://"+after))
}

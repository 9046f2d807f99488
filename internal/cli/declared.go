package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
)

// requestTimeout bounds how long a command that can do without the server waits for it.
const requestTimeout = 3 * time.Second

// checkDeclared asks the server, where one can be asked, whether its newest release
// declares the hosts: others could not enrol.
func (a *app) checkDeclared(ctx context.Context, hosts []string) error {
	where, err := a.Context()
	if err != nil || where.Token == "" {
		return err
	}
	c, err := operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)})
	if err != nil {
		return nil // what is wrong with the address is said later, in full
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := c.Status(ctx)
	if err != nil || s.Release.Version == 0 {
		return nil // it cannot tell
	}
	for _, host := range hosts {
		_, err := c.Host(ctx, host)
		if refused, ok := errors.AsType[*operator.Error](err); ok && refused.Status == http.StatusNotFound {
			return exit.With(exit.NotFound, fmt.Errorf("host %s is not declared in the newest release, %s, and could not enrol; declare it in fleet.yaml, build, sign and push, or give --undeclared for a host of the next release", host, s.Release.Ref))
		}
	}
	return nil
}

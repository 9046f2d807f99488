package operator

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// NewForecast asks to play the fleet ahead from what the server has, as steady release simulate
// --live does.
type NewForecast struct {
	Record  uint64        `json:"record,omitempty" doc:"The record of the log to begin behind; the newest unless given"`
	Start   clock.Instant `json:"start,omitempty" doc:"When it begins, in milliseconds since 1970; this minute unless given"`
	Rollout string        `json:"rollout,omitempty" maxLength:"200" doc:"The open or waiting rollout that counts; all of them unless given"`
	Release []byte        `json:"release,omitempty" doc:"A packed release that is pushed at the start; without one what the server has accepted goes on. It is read, not verified"`
	Failure float64       `json:"failure,omitempty" minimum:"0" maximum:"1" doc:"How likely an activation fails"`
	Offline float64       `json:"offline,omitempty" minimum:"0" maximum:"1" doc:"How likely a host is away all along"`
	Times   float64       `json:"times,omitempty" minimum:"0.01" maximum:"100" doc:"How many times the default preparing and activation take; 1 unless given"`
	Runs    int           `json:"runs,omitempty" minimum:"1" maximum:"10000" doc:"How many runs; by default fewer for more hosts"`
	Seed    uint64        `json:"seed,omitempty" doc:"Where chance begins; 1 unless given"`
}

// NewRerun asks what would have come of the log with something changed, as steady replay does
// with the same words.
type NewRerun struct {
	Record uint64   `json:"record,omitempty" doc:"The record of the log up to which it is known; the newest unless given"`
	Delay  []string `json:"delay,omitempty" maxItems:"20" doc:"Events that come later, SEQ=TIME"`
	Drop   []uint64 `json:"drop,omitempty" maxItems:"20" doc:"Events that do not happen"`
	Policy []string `json:"policy,omitempty" maxItems:"20" doc:"Other policies, [CHANNEL:]FIELD=VALUE"`
	Budget []string `json:"budget,omitempty" maxItems:"20" doc:"Other budgets, SELECTOR=N"`
	From   uint64   `json:"from,omitempty" doc:"The record after which policies and budgets are others; the beginning unless given"`
	Seed   uint64   `json:"seed,omitempty" doc:"Where chance begins; 1 unless given"`
}

// States of a forecast.
const (
	ForecastQueued  = "queued"
	ForecastRunning = "running"
	ForecastDone    = "done"
	ForecastFailed  = "failed"
)

// Forecast is a forecast or a rerun that a worker plays, has played, or will. The same question
// has the same id.
type Forecast struct {
	ID     string        `json:"id"`
	Record uint64        `json:"record"`
	Start  clock.Instant `json:"start,omitempty"`
	State  string        `json:"state" enum:"queued,running,done,failed"`
	Done   int           `json:"done" doc:"Runs that are played; of a rerun inputs of the log"`
	Runs   int           `json:"runs" doc:"Of so many"`
	// Found is what steady release simulate prints with -o json, of a rerun what steady replay does, of each list the
	// first 500.
	Found json.RawMessage `json:"found,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Forecast asks for a forecast, which a worker plays.
func (c *Client) Forecast(ctx context.Context, n NewForecast) (f Forecast, err error) {
	return f, c.post(ctx, "/forecasts", n, &f)
}

// ForecastOf is where a forecast or a rerun stands.
func (c *Client) ForecastOf(ctx context.Context, id string) (f Forecast, err error) {
	return f, c.get(ctx, "/forecasts/"+url.PathEscape(id), nil, &f)
}

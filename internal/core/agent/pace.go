package agent

import "github.com/steadyfleet/steady/internal/core/clock"

// Bounds on the interval of heartbeats that a server may name.
const (
	minHeartbeat = 5 * clock.Second
	maxHeartbeat = 10 * clock.Minute
)

// lingerFor is how long events wait for others that nobody needs at once: the steps of a
// short activation then make one request.
const lingerFor = 200 * clock.Millisecond

// pruneEvery is how often old events are removed from the outbox.
const pruneEvery = clock.Hour

// Pace is when a host speaks to its server: events as they come, heartbeats at the
// interval that the server names, and the renewal of its certificate. All instants are of
// one clock that never jumps; nothing of it is durable.
type Pace struct {
	interval clock.Duration
	beatAt   clock.Instant
	retryAt  clock.Instant // nothing before, after the server did not answer
	sendAt   clock.Instant // no events before, after the server put them off
	lingerTo clock.Instant // then events that can wait are sent, zero if there are none
	renewAt  clock.Instant // no renewal before, after one failed
	pruneAt  clock.Instant
}

// NewPace begins with a heartbeat.
func NewPace(interval clock.Duration, now clock.Instant) Pace {
	return Pace{interval: interval, beatAt: now, pruneAt: now}
}

// Wakes reports whether what there is to send is sent now; while backing off it waits.
func (p *Pace) Wakes(now clock.Instant) bool { return now >= p.retryAt }

// BeatNow makes a heartbeat due, whatever the interval.
func (p *Pace) BeatNow(now clock.Instant) { p.beatAt = now }

// Beats reports whether a heartbeat is due, and Replied that one was answered; interval
// is what the server named, or zero.
func (p *Pace) Beats(now clock.Instant) bool { return now >= p.beatAt }

func (p *Pace) Replied(interval clock.Duration, now clock.Instant) {
	if interval > 0 {
		p.interval = min(max(interval, minHeartbeat), maxHeartbeat)
	}
	p.beatAt = now.Add(p.interval)
}

// Sends reports whether events may be sent, and PutOff that the server takes none for a
// while: they stay in the outbox, and heartbeats go on.
func (p *Pace) Sends(now clock.Instant) bool {
	if now < p.sendAt {
		return false
	}
	p.sendAt, p.lingerTo = 0, 0
	return true
}

// Lingers notes that there are events which can wait for others, for a moment.
func (p *Pace) Lingers(now clock.Instant) {
	if p.lingerTo == 0 {
		p.lingerTo = now.Add(lingerFor)
	}
}

func (p *Pace) PutOff(wait clock.Duration, now clock.Instant) { p.sendAt = now.Add(wait) }

// Failed says that the server did not answer, and Answered that it did.
func (p *Pace) Failed(wait clock.Duration, now clock.Instant) { p.retryAt = now.Add(wait) }

func (p *Pace) Answered() { p.retryAt = 0 }

// Prunes reports, once each time, that old events are to be removed.
func (p *Pace) Prunes(now clock.Instant) bool {
	if now < p.pruneAt {
		return false
	}
	p.pruneAt = now.Add(pruneEvery)
	return true
}

// Renews reports whether the certificate, which is due in a while, is to be renewed now.
func (p *Pace) Renews(due clock.Duration, now clock.Instant) bool {
	return due <= 0 && now >= p.renewAt
}

// RenewLater puts the renewal off: it failed, or is due again at once.
func (p *Pace) RenewLater(wait clock.Duration, now clock.Instant) { p.renewAt = now.Add(wait) }

// Next is how long there is nothing to do, if nothing comes to be sent.
func (p *Pace) Next(due clock.Duration, now clock.Instant) clock.Duration {
	wait := min(p.beatAt.Sub(now), max(due, p.renewAt.Sub(now)))
	if p.sendAt != 0 {
		wait = min(wait, p.sendAt.Sub(now))
	}
	if p.lingerTo != 0 {
		wait = min(wait, max(p.lingerTo, p.retryAt, p.sendAt).Sub(now))
	}
	return max(0, wait)
}

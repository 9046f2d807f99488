package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// MaxAnchor is the most bytes of an anchor's payload.
const MaxAnchor = 128

// Anchor is a small file beside a database that says how far the database had come
// when that was last acknowledged, so that a database whose newest part is gone can be
// told from one that never had it. The file has two slots, written in turn and in
// place, so that a write that is cut leaves the one before. It is not safe for concurrent use.
type Anchor struct {
	path    string
	f       *os.File // open for writing once written
	counter uint64   // of the newest whole slot
	payload []byte
	state   AnchorState
}

// AnchorState is what was found of an anchor.
type AnchorState int

// States of an anchor.
const (
	// AnchorAbsent: there is no file.
	AnchorAbsent AnchorState = iota
	// AnchorWhole: the payload is the one written last.
	AnchorWhole
	// AnchorDamaged: one slot is damaged. The payload is the last one or the one before it.
	AnchorDamaged
	// AnchorUnreadable: there is a file, and no slot of it is whole.
	AnchorUnreadable
)

func (s AnchorState) String() string {
	return [...]string{"absent", "whole", "damaged", "unreadable"}[s]
}

// Each slot has a block of its own: a disk that writes a block in part, or loses one, spoils one slot.
const (
	anchorBlock = 4096
	anchorSize  = 2 * anchorBlock
	anchorSlot  = len(anchorMagic) + 8 + 2 + MaxAnchor + sha256.Size
	anchorMagic = "steady/anchor/1\n"
)

// OpenAnchor reads the anchor at path and changes nothing. An absent or damaged one is no error.
func OpenAnchor(path string) (*Anchor, error) {
	a := &Anchor{path: path}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the anchor: %w", err)
	}
	defer f.Close()
	image, err := io.ReadAll(io.LimitReader(f, anchorSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the anchor %s: %w", path, err)
	}
	a.counter, a.payload, a.state = decodeAnchor(image)
	return a, nil
}

// Last returns the newest payload that is whole, nil without one, and what was found.
func (a *Anchor) Last() ([]byte, AnchorState) { return bytes.Clone(a.payload), a.state }

// Write makes payload durable in place of the older slot; an absent or unreadable file it
// makes anew. After an error nobody knows what is on the disk: do not acknowledge, and open it again.
func (a *Anchor) Write(payload []byte) error {
	if len(payload) > MaxAnchor {
		return fmt.Errorf("an anchor of %d bytes; at most %d", len(payload), MaxAnchor)
	}
	if err := a.write(payload); err != nil {
		return fmt.Errorf("write the anchor %s: %w", a.path, err)
	}
	a.counter++
	a.payload, a.state = append(a.payload[:0], payload...), AnchorWhole
	return nil
}

func (a *Anchor) write(payload []byte) error {
	if a.state == AnchorAbsent || a.state == AnchorUnreadable {
		a.counter = 0
		return Replace(a.path, encodeAnchor(payload), 0o600)
	}
	if a.f == nil {
		f, err := os.OpenFile(a.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		a.f = f
	}
	next := a.counter + 1
	if _, err := a.f.WriteAt(encodeSlot(next, payload), int64(next%2)*anchorBlock); err != nil {
		return err
	}
	return unix.Fdatasync(int(a.f.Fd()))
}

// Close gives the file back; what was written stays.
func (a *Anchor) Close() error {
	if a.f == nil {
		return nil
	}
	return a.f.Close()
}

// encodeAnchor is the first file: both slots say the same, the second one is the newest.
func encodeAnchor(payload []byte) []byte {
	image := make([]byte, anchorSize)
	copy(image, encodeSlot(0, payload))
	copy(image[anchorBlock:], encodeSlot(1, payload))
	return image
}

func encodeSlot(counter uint64, payload []byte) []byte {
	b := make([]byte, 0, anchorSlot)
	b = append(b, anchorMagic...)
	b = binary.BigEndian.AppendUint64(b, counter)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, payload...)
	b = b[:anchorSlot-sha256.Size]
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func decodeSlot(b []byte) (counter uint64, payload []byte, whole bool) {
	if len(b) < anchorSlot || !bytes.HasPrefix(b, []byte(anchorMagic)) {
		return 0, nil, false
	}
	body, sum := b[:anchorSlot-sha256.Size], b[anchorSlot-sha256.Size:anchorSlot]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return 0, nil, false
	}
	body = body[len(anchorMagic):]
	size := int(binary.BigEndian.Uint16(body[8:]))
	if size > MaxAnchor {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(body), bytes.Clone(body[10 : 10+size]), true
}

// decodeAnchor returns the newest whole slot. Two whole slots that are not one after the other
// are damage too: the newest may be the one that is gone.
func decodeAnchor(image []byte) (counter uint64, payload []byte, state AnchorState) {
	state = AnchorUnreadable
	var whole [2]uint64
	found := 0
	for i := range 2 {
		if len(image) < i*anchorBlock+anchorSlot {
			break
		}
		c, p, ok := decodeSlot(image[i*anchorBlock:])
		if !ok || c%2 != uint64(i) {
			continue
		}
		whole[found] = c
		if found++; found == 1 || c > counter {
			counter, payload = c, p
		}
	}
	switch {
	case found == 0:
	case found == 2 && (whole[0]+1 == whole[1] || whole[1]+1 == whole[0]):
		state = AnchorWhole
	default:
		state = AnchorDamaged
	}
	return counter, payload, state
}

package keyring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
	"github.com/google/go-tpm/tpm2/transport/linuxtpm"
)

// TPMScheme begins the name of a module: tpm:/dev/tpmrm0, the kernel's resource
// manager, or tpm:unix:/path/to/socket, an emulator.
const TPMScheme = "tpm:"

// Module is an open TPM. Keys are made in it, never leave it, and sign in it; what lies on
// the disk is a file that only the module that made it can load. It is safe for concurrent use: one command is under way
// at a time.
type Module struct {
	name string
	mu   sync.Mutex
	tpm  transport.TPM
	end  func() error
}

// OpenTPM opens the module of a name such as tpm:/dev/tpmrm0 and makes sure that
// it answers.
func OpenTPM(name string) (*Module, error) {
	path, ok := strings.CutPrefix(name, TPMScheme)
	if !ok || path == "" {
		return nil, fmt.Errorf("%q names no TPM; expected tpm:/dev/tpmrm0, or tpm:unix:/path/to/socket for an emulator", name)
	}
	m := &Module{name: name, end: func() error { return nil }}
	if socket, ok := strings.CutPrefix(path, "unix:"); ok {
		m.tpm = emulator(socket)
	} else {
		device, err := linuxtpm.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open the TPM: %w; is there one, and may this user open it (group tss)?", err)
		}
		m.tpm, m.end = device, device.Close
	}
	if _, err := (tpm2.GetRandom{BytesRequested: 8}).Execute(m.tpm); err != nil {
		return nil, errors.Join(fmt.Errorf("the TPM %s does not answer: %w", name, err), m.end())
	}
	return m, nil
}

// Close closes the module; keys of it sign no more.
func (m *Module) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end()
}

// String returns the name that Open was given.
func (m *Module) String() string { return m.name }

// emulator is the socket of a software TPM. Every command has a connection of its
// own, as such emulators serve one at a time.
type emulator string

// answerIn bounds one command of an emulator.
const answerIn = 30 * time.Second

// maxResponse bounds a response, in bytes; the specification's buffers have 4096.
const maxResponse = 64 << 10

// Send implements transport.TPM.
func (path emulator) Send(command []byte) (response []byte, err error) {
	conn, err := net.DialTimeout("unix", string(path), answerIn)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(answerIn)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(command); err != nil {
		return nil, err
	}
	header := make([]byte, 10) // tag, size of the whole, code
	if _, err := io.ReadFull(conn, header); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[2:])
	if size < uint32(len(header)) || size > maxResponse {
		return nil, fmt.Errorf("a response of %d bytes: expected %d to %d", size, len(header), maxResponse)
	}
	response = make([]byte, size)
	copy(response, header)
	_, err = io.ReadFull(conn, response[len(header):])
	return response, err
}

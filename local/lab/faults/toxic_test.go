package faults

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	redislog "github.com/redis/go-redis/v9/logging"
	"github.com/rs/zerolog"
)

// network is a proxy between an environment and its server.
type network struct {
	proxy  *toxiproxy.Proxy
	dialed atomic.Int64 // accepted connections

	oblivious atomic.Bool
	forgotten atomic.Int64 // connections that oblivion drops
}

// connect returns a network in front of a server at host:port.
func connect(t *testing.T, server string) *network {
	t.Helper()
	n := &network{}
	logger := zerolog.New(io.Discard).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, message string) {
		if message == "Accepted client" {
			n.dialed.Add(1)
		}
	}))
	n.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger), "network", "127.0.0.1:0", server)
	if err := n.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proxy.Stop)
	return n
}

// address returns the address of the network, host:port.
func (n *network) address() string { return n.proxy.Listen }

// poison adds a toxic upstream (to the server) or downstream (to the environment).
func (n *network) poison(t *testing.T, direction, kind string, attributes map[string]any) {
	t.Helper()
	toxic, err := json.Marshal(map[string]any{"type": kind, "stream": direction + "stream", "attributes": attributes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic))); err != nil {
		t.Fatal(err)
	}
}

// heal removes all toxics. If a fault has stopped the proxy, heal starts it again.
func (n *network) heal(t *testing.T) {
	t.Helper()
	n.proxy.Toxics.ResetToxics(context.Background())
	if n.proxy.Enabled {
		return
	}
	if err := n.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// hangUp closes all connections and accepts new ones.
func (n *network) hangUp(t *testing.T) {
	t.Helper()
	n.proxy.Stop()
	n.heal(t)
}

// lead sets the server to which the network connects.
func (n *network) lead(t *testing.T, server string) {
	t.Helper()
	n.proxy.Stop()
	n.proxy.Upstream = server
	n.heal(t)
}

// oblivion is a toxic that drops all data of existing connections, like a router that lost its
// connection table. It does not affect new connections.
type oblivion struct {
	Network string `json:"network"` // key in networks
}

var (
	_ toxics.Toxic = oblivion{}

	networks sync.Map // *network by address
)

func init() {
	toxics.Register("oblivion", new(oblivion))
	zerolog.SetGlobalLevel(zerolog.InfoLevel) // hides log lines of toxics at trace level
	redislog.Disable()                        // functions/boot does the same
}

// Pipe implements toxics.Toxic. If the network is oblivious when Pipe starts, Pipe drops all data of its
// connection.
func (o oblivion) Pipe(stub *toxics.ToxicStub) {
	value, _ := networks.Load(o.Network)
	n := value.(*network)
	old := n.oblivious.Load()
	if old {
		n.forgotten.Add(1)
	}
	for {
		select {
		case <-stub.Interrupt:
			return
		case c := <-stub.Input:
			if c == nil {
				stub.Close()
				return
			}
			if !old {
				stub.Output <- c
			}
		}
	}
}

// forget makes the network drop the existing connections silently.
func (n *network) forget(t *testing.T) {
	t.Helper()
	networks.Store(n.address(), n)
	n.forgotten.Store(0)
	n.oblivious.Store(true)
	n.poison(t, "up", "oblivion", map[string]any{"network": n.address()})
	eventually(t, "the connection is forgotten", func() bool { return n.forgotten.Load() > 0 })
	n.oblivious.Store(false)
}

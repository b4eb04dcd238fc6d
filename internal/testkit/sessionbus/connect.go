package sessionbus

import (
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Connect is a bus that somebody else runs. Stop leaves it.
func Connect(address string) (*Bus, error) {
	conn, err := dbus.Connect(address)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus %s: %w", address, err)
	}
	return &Bus{Address: address, Conn: conn}, nil
}

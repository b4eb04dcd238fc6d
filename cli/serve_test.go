package cli

import "testing"

func TestAddressesForThisMachineAlone(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8090": true, "127.9.0.1:0": true, "[::1]:8090": true, "localhost:8090": true,
		":8443": false, "0.0.0.0:8443": false, "[::]:8443": false, "192.168.1.4:80": false, "box.lan:80": false, "nonsense": false,
	} {
		if got := onLoopback(listen); got != want {
			t.Errorf("onLoopback(%q) = %v", listen, got)
		}
	}
}

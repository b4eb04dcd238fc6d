package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// Exporter is Prometheus' node_exporter: a daemon that many run on each machine and few mind.
type Exporter struct {
	Pid int

	url  string
	proc *process
}

// StartExporter runs the node_exporter of Debian as it comes.
func StartExporter(ctx context.Context, p *Plane) (*Exporter, error) {
	program, err := exec.LookPath("prometheus-node-exporter")
	if err != nil {
		return nil, fmt.Errorf("%w: apt-get install prometheus-node-exporter", err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for node_exporter: %w", err)
	}
	address := free.Addr().String()
	_ = free.Close() // only its number was wanted
	e := &Exporter{url: "http://" + address + "/metrics"}
	e.proc, err = start(p.dir, "node_exporter", program, []string{"--web.listen-address=" + address}, os.Environ(), nil)
	if err != nil {
		return nil, err
	}
	e.Pid = e.proc.cmd.Process.Pid
	for deadline := time.Now().Add(upWithin); ; {
		if err = e.Scrape(ctx); err == nil {
			return e, nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-e.proc.exited:
			return nil, fmt.Errorf("node_exporter ended; its log is %s", e.proc.log.Name())
		}
		if time.Now().After(deadline) {
			e.Stop()
			return nil, err
		}
	}
}

// Scrape reads all of its figures, as Prometheus does.
func (e *Exporter) Scrape(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("scrape node_exporter: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// Stop ends it.
func (e *Exporter) Stop() { e.proc.stop() }

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

// Driver answers the kubelet.
type Driver struct {
	node   string
	daemon Daemon
	end    context.CancelCauseFunc
	// The kubelet's calls and the exchanges with the daemon are on several threads.
	lock       sync.Mutex
	checkpoint *Checkpoint
	problem    string
}

// RunDriver serves the kubelet until ctx ends or the API server refuses what cannot be mended.
func runDriver(ctx context.Context, client kubernetes.Interface, daemon Daemon, o *Options) error {
	directory := filepath.Join(o.kubelet, "plugins", driverName)
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return err
	}
	checkpoint, damaged, err := openCheckpoint(filepath.Join(directory, "checkpoint.json"))
	if err != nil {
		return err
	}
	if damaged != "" {
		klog.Errorf("floors of claims that were prepared are lost: %s", damaged)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	driver := &Driver{node: o.node, daemon: daemon, end: end, checkpoint: checkpoint}
	helper, err := kubeletplugin.Start(ctx, driver,
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(o.node),
		kubeletplugin.DriverName(driverName),
		kubeletplugin.PluginDataDirectoryPath(directory),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(o.kubelet, "plugins_registry")),
		// Memory that is broken is the kernel's to take away.
		kubeletplugin.HealthService(false),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	driver.follow(ctx, helper, o.interval)
	// A signal is no failure.
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// Follow exchanges claims with the daemon at each interval, and publishes the fast memory that it
// has to give whenever that changes.
func (d *Driver) follow(ctx context.Context, helper *kubeletplugin.Helper,
	interval time.Duration) {
	published := int64(-1)
	for ticks := time.Tick(interval); ; {
		claims, err := d.tell(ctx)
		if err == nil && claims.Capacity != published {
			klog.Infof("%d bytes of fast memory can be claimed", claims.Capacity)
			err = helper.PublishResources(ctx, resources(d.node, claims.Capacity))
			if err == nil {
				published = claims.Capacity
			}
		}
		d.report(err)
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// Tell sends the daemon all floors: one that was restarted knows none.
func (d *Driver) tell(ctx context.Context) (Claims, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.daemon.exchange(ctx, floors(d.checkpoint.claims))
}

// Report logs a problem once, and its end.
func (d *Driver) report(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	switch {
	case problem == d.problem:
	case problem == "":
		klog.Info("tierwised has all claims again")
	default:
		klog.Error(problem)
	}
	d.problem = problem
}

// PrepareResourceClaims implements [kubeletplugin.DRAPlugin].
//
// A daemon that does not answer holds no pod up: it gets the floor as soon as it answers again. One
// that refuses the floor does.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (
	map[types.UID]kubeletplugin.PrepareResult, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	results := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	old := d.checkpoint.claims
	all := maps.Clone(old)
	for _, claim := range claims {
		found, devices, err := prepare(claim, d.node)
		if err == nil {
			all[claim.UID] = found
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
	}
	if err := d.checkpoint.replace(all); err != nil {
		return nil, fmt.Errorf("cannot keep the claims: %w", err)
	}
	_, err := d.daemon.exchange(ctx, floors(all))
	if errors.Is(err, ErrRefused) {
		return nil, errors.Join(err, d.checkpoint.replace(old))
	}
	if err != nil {
		klog.Errorf("the floors hold later: %v", err)
	}
	return results, nil
}

// UnprepareResourceClaims implements [kubeletplugin.DRAPlugin]. A daemon that does not answer holds
// no pod's end up: the next exchange takes the floor away.
func (d *Driver) UnprepareResourceClaims(ctx context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	results := make(map[types.UID]error, len(claims))
	left := maps.Clone(d.checkpoint.claims)
	for _, claim := range claims {
		delete(left, claim.UID)
		results[claim.UID] = nil
	}
	if err := d.checkpoint.replace(left); err != nil {
		return nil, fmt.Errorf("cannot forget the claims: %w", err)
	}
	if _, err := d.daemon.exchange(ctx, floors(left)); err != nil {
		klog.Errorf("the floors end later: %v", err)
	}
	return results, nil
}

// HandleError implements [kubeletplugin.DRAPlugin]: it takes what happens in the background.
func (d *Driver) HandleError(_ context.Context, err error, message string) {
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) {
		d.end(fmt.Errorf("the API server drops fields of the device, so that the scheduler would "+
			"give it to one pod alone: %w; switch DRAConsumableCapacity on, or run the driver "+
			"with -mode extended-resource", err))
		return
	}
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		klog.Errorf("%s: %v; it is tried again", message, err)
		return
	}
	d.end(fmt.Errorf("%s: %w", message, err))
}

// WatchHealthStatus implements [kubeletplugin.DRAPlugin].
func (d *Driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

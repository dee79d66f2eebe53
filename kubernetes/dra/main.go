// Tierwise-dra is the driver of a node's fast memory: it tells the scheduler of Kubernetes how much
// of it pods may claim, and tells tierwised the floors of the pods that have claimed some.
//
// It has two modes. With -mode claims it is a driver for dynamic resource allocation: it publishes
// one device whose capacity many claims share, and the kubelet calls it before a pod with a claim
// starts and after it has ended. With -mode extended-resource, for clusters without consumable
// capacity, it writes tierwise.io/fast-memory, in whole MiB, into its node's status, and floors are
// those of annotations.
//
// The amount is always the daemon's: the fast tier less the reserve and the floors of configured
// tenants.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// The image's build sets it.
var version = "unreleased"

// Options are those of the command line.
type Options struct {
	node       string
	mode       string
	socket     string
	kubelet    string
	kubeconfig string
	interval   time.Duration
}

func main() {
	klog.InitFlags(nil)
	var options Options
	flag.StringVar(&options.node, "node", os.Getenv("NODE_NAME"), "the name of this node")
	flag.StringVar(&options.mode, "mode", "claims", "claims or extended-resource")
	flag.StringVar(&options.socket, "socket", "/run/tierwise-claims/claims.sock",
		"the socket at which tierwised takes claims")
	flag.StringVar(&options.kubelet, "kubelet", "/var/lib/kubelet",
		"the directory of the kubelet")
	flag.StringVar(&options.kubeconfig, "kubeconfig", "",
		"the file that names the API server; without it, the account of this pod")
	// A restarted daemon lacks its claims for so long at most. An exchange takes a millisecond.
	flag.DurationVar(&options.interval, "interval", 5*time.Second,
		"the time between two exchanges with tierwised")
	shown := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *shown {
		fmt.Println("tierwise-dra", version)
		return
	}
	if problem := options.problem(flag.Args()); problem != "" {
		fmt.Fprintln(os.Stderr, "tierwise-dra:", problem)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := options.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tierwise-dra:", err)
		os.Exit(1)
	}
}

// Problem returns the first mistake in the command line; empty if there is none.
func (o *Options) problem(rest []string) string {
	switch {
	case len(rest) > 0:
		return fmt.Sprintf("found %q; allowed: flags only", rest[0])
	case o.node == "":
		return "-node: found nothing; allowed: the node's name, or the variable NODE_NAME"
	case o.mode != "claims" && o.mode != "extended-resource":
		return fmt.Sprintf("-mode: found %q; allowed: claims, extended-resource", o.mode)
	case o.interval <= 0:
		return fmt.Sprintf("-interval: found %s; allowed: a time above 0", o.interval)
	}
	return ""
}

func (o *Options) run(ctx context.Context) error {
	client, err := o.client()
	if err != nil {
		return err
	}
	daemon := Daemon{socket: o.socket}
	if o.mode == "extended-resource" {
		status := &NodeStatus{client: client, node: o.node, daemon: daemon}
		return status.run(ctx, o.interval)
	}
	return runDriver(ctx, client, daemon, o)
}

func (o *Options) client() (kubernetes.Interface, error) {
	var config *rest.Config
	var err error
	if o.kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("the API server is not known: %w", err)
	}
	config.UserAgent = "tierwise-dra"
	return kubernetes.NewForConfig(config)
}

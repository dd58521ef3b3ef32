// Command kube is all of Kubernetes that a one-node cluster needs, in one program: its first argument chooses the component.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var components = map[string]func() *cobra.Command{
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": controllermanager.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"proxy":              proxy.NewProxyCommand,
	"kubelet":            func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	if len(os.Args) < 2 {
		refuse("no component was named")
	}
	name := os.Args[1]
	os.Args = append([]string{"kube-" + name}, os.Args[2:]...)
	if name == "ctl" {
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
		return
	}
	component, known := components[name]
	if !known {
		refuse(fmt.Sprintf("there is no component %q", name))
	}
	os.Exit(cli.Run(component()))
}

func refuse(reason string) {
	fmt.Fprintf(os.Stderr, "kube: %s; use apiserver, controller-manager, scheduler, proxy, kubelet or ctl\n", reason)
	os.Exit(2)
}

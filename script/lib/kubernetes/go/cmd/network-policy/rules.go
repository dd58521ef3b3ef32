package main

import (
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const tableName = "inet ramet_policies"

// view is what policies are about, at one time.
type view struct {
	policies   []*networkingv1.NetworkPolicy
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	dns        *corev1.Pod
	network    string
}

// table returns the rules: a chain for each direction of each pod that a policy selects, in which what is not allowed is dropped.
func (v view) table() string {
	chains, forward, input := &strings.Builder{}, &strings.Builder{}, &strings.Builder{}
	// A pod sends before the API server knows its address. Until then it reaches nothing but the node.
	fmt.Fprintf(forward, "    ip saddr %s ip saddr != { %s } drop\n", v.network, strings.Join(v.known(), ", "))
	pods := append([]*corev1.Pod{}, v.pods...)
	sort.Slice(pods, func(i, j int) bool { return pods[i].Status.PodIP < pods[j].Status.PodIP })
	for _, pod := range pods {
		if !hasAddress(pod) {
			continue
		}
		if allowed, isolated := v.ingress(pod); isolated {
			name := chain(chains, "to", pod, allowed)
			fmt.Fprintf(forward, "    ip daddr %s jump %s\n", pod.Status.PodIP, name)
		}
		if allowed, isolated := v.egress(pod); isolated {
			name := chain(chains, "from", pod, allowed)
			fmt.Fprintf(forward, "    ip saddr %s jump %s\n", pod.Status.PodIP, name)
			fmt.Fprintf(input, "    ip saddr %s jump %s\n", pod.Status.PodIP, name)
		}
	}
	const hook = "  chain %s {\n    type filter hook %s priority filter; policy accept;\n    ct state established,related accept\n%s  }\n"
	return fmt.Sprintf("table %s\ndelete table %s\ntable %s {\n%s", tableName, tableName, tableName, chains) +
		fmt.Sprintf(hook, "forward", "forward", forward) + fmt.Sprintf(hook, "input", "input", input) + "}\n"
}

func (v view) known() []string {
	found := []string{v.dns.Status.PodIP}
	for _, pod := range v.pods {
		if hasAddress(pod) {
			found = append(found, pod.Status.PodIP)
		}
	}
	sort.Strings(found)
	return found
}

func hasAddress(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Status.PodIP != "" && !pod.Spec.HostNetwork && !ended
}

func chain(chains *strings.Builder, direction string, pod *corev1.Pod, allowed []string) string {
	name := fmt.Sprintf("%s_%s", direction, strings.ReplaceAll(pod.Status.PodIP, ".", "_"))
	fmt.Fprintf(chains, "  chain %s {\n    comment \"%s/%s\"\n", name, pod.Namespace, pod.Name)
	for _, match := range allowed {
		fmt.Fprintf(chains, "    %s return\n", match)
	}
	fmt.Fprintf(chains, "    drop\n  }\n")
	return name
}

func (v view) ingress(pod *corev1.Pod) (allowed []string, isolated bool) {
	for _, policy := range v.selecting(pod, networkingv1.PolicyTypeIngress) {
		isolated = true
		for _, rule := range policy.Spec.Ingress {
			allowed = append(allowed, v.matches("saddr", policy.Namespace, rule.From, rule.Ports, pod)...)
		}
	}
	return allowed, isolated
}

func (v view) egress(pod *corev1.Pod) (allowed []string, isolated bool) {
	for _, policy := range v.selecting(pod, networkingv1.PolicyTypeEgress) {
		isolated = true
		for _, rule := range policy.Spec.Egress {
			allowed = append(allowed, v.matches("daddr", policy.Namespace, rule.To, rule.Ports, nil)...)
		}
	}
	return allowed, isolated
}

func (v view) selecting(pod *corev1.Pod, direction networkingv1.PolicyType) []*networkingv1.NetworkPolicy {
	var found []*networkingv1.NetworkPolicy
	for _, policy := range v.policies {
		if policy.Namespace != pod.Namespace || !selects(&policy.Spec.PodSelector, pod.Labels) {
			continue
		}
		for _, one := range policy.Spec.PolicyTypes {
			if one == direction {
				found = append(found, policy)
			}
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found
}

// matches returns what one rule allows, as matches of nftables: each peer with each port.
func (v view) matches(
	field, namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, target *corev1.Pod,
) []string {
	var found []string
	for _, address := range v.addresses(field, namespace, peers) {
		if len(ports) == 0 {
			found = append(found, orCounter(address))
		}
		for _, port := range ports {
			if match, known := portMatch(port, target); known {
				found = append(found, strings.TrimSpace(address+" "+match))
			}
		}
	}
	return found
}

func orCounter(match string) string {
	if match == "" {
		return "counter"
	}
	return match
}

func (v view) addresses(field, namespace string, peers []networkingv1.NetworkPolicyPeer) []string {
	if len(peers) == 0 {
		return []string{""}
	}
	var found []string
	for _, peer := range peers {
		if block := peer.IPBlock; block != nil {
			match := fmt.Sprintf("ip %s %s", field, block.CIDR)
			if len(block.Except) > 0 {
				match += fmt.Sprintf(" ip %s != { %s }", field, strings.Join(block.Except, ", "))
			}
			found = append(found, match)
			continue
		}
		if chosen := v.chosen(namespace, peer); len(chosen) > 0 {
			found = append(found, fmt.Sprintf("ip %s { %s }", field, strings.Join(chosen, ", ")))
		}
	}
	return found
}

func (v view) chosen(namespace string, peer networkingv1.NetworkPolicyPeer) []string {
	var found []string
	for _, pod := range append([]*corev1.Pod{v.dns}, v.pods...) {
		if !hasAddress(pod) || (peer.PodSelector != nil && !selects(peer.PodSelector, pod.Labels)) {
			continue
		}
		inside := pod.Namespace == namespace
		if peer.NamespaceSelector != nil {
			inside = selects(peer.NamespaceSelector, v.labelsOf(pod.Namespace))
		}
		if inside {
			found = append(found, pod.Status.PodIP)
		}
	}
	sort.Strings(found)
	return found
}

func (v view) labelsOf(namespace string) map[string]string {
	for _, one := range v.namespaces {
		if one.Name == namespace {
			return one.Labels
		}
	}
	return nil
}

func portMatch(port networkingv1.NetworkPolicyPort, target *corev1.Pod) (match string, known bool) {
	protocol := "tcp"
	if port.Protocol != nil {
		protocol = strings.ToLower(string(*port.Protocol))
	}
	switch {
	case port.Port == nil:
		return "meta l4proto " + protocol, true
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d", protocol, port.Port.IntVal, *port.EndPort), true
	case port.Port.Type == intstr.Int:
		return fmt.Sprintf("%s dport %d", protocol, port.Port.IntVal), true
	case target == nil:
		return "", false
	}
	for _, container := range target.Spec.Containers {
		for _, one := range container.Ports {
			if one.Name == port.Port.StrVal {
				return fmt.Sprintf("%s dport %d", protocol, one.ContainerPort), true
			}
		}
	}
	return "", false
}

func selects(selector *metav1.LabelSelector, of map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(of))
}

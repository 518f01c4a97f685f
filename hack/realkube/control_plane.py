"""A real control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and, when asked for, kwok."""

from __future__ import annotations

import ipaddress
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from realkube import binaries, flags
from realkube.api import Access
from realkube.binaries import KUBERNETES
from realkube.certificates import Authority, signing_key
from realkube.process import Process, free_ports, wait_until
from realkube.progress import Say, timed

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


@dataclass(frozen=True)
class User:
    """Somebody whom the API server knows by a token from its start."""

    name: str
    token: str
    groups: tuple[str, ...] = ()

    def line(self) -> str:
        """The user's line of the token file."""
        return f'{self.token},{self.name},{self.name},"{",".join(self.groups)}"\n'


class ControlPlane:
    """Ready in seconds, all under one folder; ends exactly its own processes, also when its owner is killed."""

    version = KUBERNETES

    def __init__(
        self,
        folder: Path,
        *,
        address: str = flags.LOOPBACK,
        service_network: str = flags.SERVICE_NETWORK,
        users: Sequence[User] = (),
        controllers_as: User | None = None,
        controller_flags: Sequence[str] = (),
        server_flags: Sequence[str] = (),
        say: Say = print,
    ) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.admin_user = User("admin", secrets.token_urlsafe(24), ("system:masters",))
        self._address = address
        self._service_network = service_network
        self._controllers_user = controllers_as or self.admin_user
        self._controller_flags = controller_flags
        self._server_flags = server_flags
        self._users = tuple({user.name: user for user in (self.admin_user, self._controllers_user, *users)}.values())
        self._say = say
        self._processes: list[Process] = []
        for each in ("pki", "logs", "etcd"):
            (folder / each).mkdir(parents=True, mode=0o700)
        self.authority = Authority(folder / "pki")

    def __enter__(self) -> ControlPlane:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the server is ready and its controllers work; after a failure nothing is left running."""
        programs = binaries.ensure(*PROGRAMS, say=self._say)
        etcd_port, peer_port, api_port = free_ports(3, self._address)
        self.admin = Access(f"https://{self._address}:{api_port}", self.authority.ca_file, self.admin_user.token)
        identity = self._identity()
        run = self._run
        try:
            with timed("etcd and kube-apiserver ready", self._say):
                run(programs["etcd"], flags.etcd(self.folder / "etcd", self._address, etcd_port, peer_port))
                server = flags.apiserver(identity, self._address, api_port, etcd_port, self._service_network)
                run(programs["kube-apiserver"], [*server, *self._server_flags])
                self._wait(self.admin.ready, "kube-apiserver is ready")
            self.admin.write_kubeconfig(self.kubeconfig)
            with timed("kube-controller-manager and kube-scheduler working", self._say):
                as_controllers = Access(self.admin.url, self.admin.ca_file, self._controllers_user.token)
                kubeconfig = as_controllers.write_kubeconfig(self.folder / "controllers.kubeconfig")
                controllers = flags.controller_manager(identity, kubeconfig, self._controller_flags)
                run(programs["kube-controller-manager"], controllers)
                run(programs["kube-scheduler"], flags.scheduler(self.kubeconfig))
                self._wait(self._controllers_work, "the default ServiceAccount appears")
        except BaseException:
            self.stop()
            raise

    def start_kwok(self) -> None:
        """From now on nodes that carry kwok's annotation, and the pods on them, behave like running ones."""
        program = binaries.ensure("kwok", say=self._say)["kwok"]
        self._run(program, flags.kwok(self.kubeconfig, binaries.kwok_stages(self._say), free_ports(1)[0]))

    def stop(self) -> None:
        """End the processes at once, without a flush: of their data only the logs are of use to anybody."""
        while self._processes:
            self._processes.pop().kill()
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)

    def process_ids(self) -> list[int]:
        """The processes that run now on its behalf."""
        return [process.pid for process in self._processes]

    def api_server_id(self) -> int:
        """The process that answers requests."""
        return next(process.pid for process in self._processes if process.name == "kube-apiserver")

    def require_alive(self) -> None:
        """Raise if one of the processes has ended."""
        for process in self._processes:
            process.require_alive()

    def _identity(self) -> flags.Identity:
        pki = self.folder / "pki"
        token_file = pki / "tokens.csv"
        token_file.touch(mode=0o600)
        token_file.write_text("".join(user.line() for user in self._users))
        own_service = str(ipaddress.ip_network(self._service_network)[1])  # the API server takes the first address
        hosts = (*flags.API_SERVER_NAMES, flags.LOOPBACK, own_service, self._address)
        return flags.Identity(
            ca_file=self.authority.ca_file,
            serving=self.authority.server("kube-apiserver", list(dict.fromkeys(hosts))),
            kubelet_client=self.authority.client("kube-apiserver-kubelet-client", ["system:masters"]),
            service_account_key=signing_key(pki / "service-account.key"),
            token_file=token_file,
        )

    def _controllers_work(self) -> bool:
        """Pods are refused before their namespace has its ServiceAccount, which the controller manager makes."""
        return self.admin.request("GET", "/api/v1/namespaces/default/serviceaccounts/default").status == 200

    def _run(self, program: Path, arguments: Sequence[str]) -> None:
        log = self.folder / "logs" / f"{program.name}.log"
        self._processes.append(Process(program.name, [program, *arguments], log))

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what, self._processes)

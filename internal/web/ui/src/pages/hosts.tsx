import { HostTable, hostQuery } from "../parts/hosts";
import { Command, Empty, Loaded } from "../parts/layout";
import { Pager } from "../parts/table";
import { go, parameter, withParameters } from "../router";
import { useAnswer } from "../stream";

// HostsPage lists the hosts. The server filters, sorts and cuts the list.
export function HostsPage() {
  const hosts = useAnswer("page-hosts", {}, hostQuery({}));
  const fleet = useAnswer("show-fleet").value;
  const pick = (name: string) => (e: Event) => go(withParameters({ [name]: (e.target as HTMLSelectElement | HTMLInputElement).value, offset: "" }), true);
  const channels = [...new Set((fleet?.groups ?? []).map((g) => g.channel))];
  return (
    <>
      <h1>Hosts</h1>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <label>Name <input type="search" value={parameter("search")} onInput={pick("search")} /></label>
        <label>State <select value={parameter("state")} onChange={pick("state")}>
          <option value="">any</option>
          {(fleet?.legend ?? []).map((l) => <option key={l.code} value={l.state}>{l.state} ({l.count})</option>)}
        </select></label>
        <label>Channel <select value={parameter("channel")} onChange={pick("channel")}>
          <option value="">any</option>
          {channels.map((c) => <option key={c} value={c}>{c}</option>)}
        </select></label>
      </form>
      <Loaded of={hosts}>
        {(h) => h.total === 0
          ? <Empty>No host is like that. A host comes into the fleet by its line in fleet.yaml and a token: <Command line="steady token create NAME" /></Empty>
          : <><HostTable hosts={h.items} /><Pager total={h.total} offset={h.offset} /></>}
      </Loaded>
    </>
  );
}

# Evaluates a module of NixOS with the settings of its options, and returns the unit that comes of it
# as text: as much of nixpkgs' lib and of its rendering of units as the module of Steady uses.
{ module, settings }:

let
  all = f: list: builtins.all (x: x) (map f list);
  types = rec {
    str = builtins.isString;
    path = v: builtins.isPath v || builtins.isString v && builtins.substring 0 1 v == "/";
    package = v: builtins.isAttrs v && v ? outPath;
    bool = builtins.isBool;
    nullOr = t: v: v == null || t v;
    either = a: b: v: a v || b v;
    oneOf = ts: v: builtins.any (t: t v) ts;
    listOf = t: v: builtins.isList v && all t v;
  };
  lib = {
    inherit types;
    mkOption = o: o;
    mkEnableOption = what: { type = types.bool; default = false; description = "Whether to enable ${what}."; };
    mkIf = condition: content: if condition then content else { };
    literalExpression = text: text;
    concatMapStringsSep = separator: f: list: builtins.concatStringsSep separator (map f list);
    hasSuffix = end: s:
      let n = builtins.stringLength s; m = builtins.stringLength end;
      in n >= m && builtins.substring (n - m) m s == end;
  };

  evaluated = (import module) {
    inherit lib;
    pkgs = { };
    config = {
      nix.package = { outPath = "/nix/store/none-nix"; };
      services.steady-agent = options;
    };
  };
  declared = evaluated.options.services.steady-agent;
  unknown = builtins.filter (name: !(declared ? ${name})) (builtins.attrNames settings);
  options =
    if unknown != [ ] then throw "no option ${toString unknown}" else
    builtins.mapAttrs
      (name: o:
        let value = settings.${name} or o.default; in
        if o.type value then value else throw "the value of ${name} is not of its type")
      declared;

  service = evaluated.config.systemd.services.steady-agent;
  text = v: if v == true then "true" else if v == false then "false" else toString v;
  lines = set: builtins.concatStringsSep "" (map (name: "${name}=${text set.${name}}\n") (builtins.attrNames set));
in
if evaluated.config == { } then "" else ''
  [Unit]
  Description=${service.description}
  Documentation=${toString service.documentation}
  Wants=${toString service.wants}
  After=${toString service.after}
  ${lines service.unitConfig}
  [Service]
  Environment=PATH=${builtins.concatStringsSep ":" (map (p: "${p}/bin") service.path)}
  X-RestartIfChanged=${text service.restartIfChanged}
  X-StopIfChanged=${text service.stopIfChanged}
  ${lines service.serviceConfig}
  [Install]
  WantedBy=${toString service.wantedBy}
''

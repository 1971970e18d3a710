"""System tables that clients read, as in PostgreSQL 14; most of them are empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reticent.domain import Domain
from reticent.service.postgres.catalog_types import OWNER, ROUTINES, SHORT_NAMES, SQL_NAMES, TYPE_ARRAYS, type_rows
from reticent.service.postgres.messages import WireType
from reticent.service.postgres.parameters import column_type
from reticent.service.postgres.types import DATE, FLOAT8, INT8, TEXT, TIMESTAMP
from reticent.service.postgres.variables import SERVER_VERSION

DATABASE = "reticent"
FIRST_TABLE = 16384
SYNTHETIC = "_synthetic"
"""After a table's name: the view of its synthetic rows."""
_TYPES = {
    "o": "UINTEGER",
    "t": "VARCHAR",
    "b": "BOOLEAN",
    "i": "INTEGER",
    "s": "SMALLINT",
    "f": "DOUBLE",
    "l": "BIGINT",
    "S": "SMALLINT[]",
    "O": "UINTEGER[]",
    "T": "VARCHAR[]",
    "C": "VARCHAR",
}

PG_CATALOG = {
    "pg_am": "oid:o amname:t amhandler:o amtype:t",
    "pg_attrdef": "oid:o adrelid:o adnum:s adbin:t",
    "pg_attribute": "attrelid:o attname:t atttypid:o attstattarget:i attlen:s attnum:s attndims:i attcacheoff:i "
    "atttypmod:i attbyval:b attstorage:t attalign:t attnotnull:b atthasdef:b atthasmissing:b attidentity:t "
    "attgenerated:t attisdropped:b attislocal:b attinhcount:i attcollation:o attcompression:t attacl:T attoptions:T "
    "attfdwoptions:T",
    "pg_auth_members": "roleid:o member:o grantor:o admin_option:b",
    "pg_available_extensions": "name:t default_version:t installed_version:t comment:t",
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t",
    "pg_class": "oid:o relname:t relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o "
    "reltablespace:o relpages:i reltuples:f relallvisible:i reltoastrelid:o relhasindex:b relisshared:b "
    "relpersistence:t relkind:t relnatts:s relchecks:s relhasrules:b relhastriggers:b relhassubclass:b "
    "relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:t relispartition:b relrewrite:o "
    "relfrozenxid:o relminmxid:o relacl:T reloptions:T relpartbound:t relhasoids:b",
    "pg_collation": "oid:o collname:t collnamespace:o collowner:o collprovider:t collisdeterministic:b collencoding:i "
    "collcollate:t collctype:t collversion:t",
    "pg_constraint": "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b "
    "conrelid:o contypid:o conindid:o conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t "
    "conislocal:b coninhcount:i connoinherit:b conkey:S confkey:S conpfeqop:O conppeqop:O conffeqop:O conexclop:O "
    "conbin:t",
    "pg_conversion": "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i conproc:o "
    "condefault:b",
    "pg_cursors": "name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:t",
    "pg_database": "oid:o datname:t datdba:o encoding:i datcollate:t datctype:t datistemplate:b datallowconn:b "
    "datconnlimit:i datlastsysoid:o datfrozenxid:o datminmxid:o dattablespace:o datacl:T",
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:T",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:T",
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t",
    "pg_description": "objoid:o classoid:o objsubid:i description:t",
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:t",
    "pg_event_trigger": "oid:o evtname:t evtevent:t evtowner:o evtfoid:o evtenabled:t evttags:T",
    "pg_extension": "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:O "
    "extcondition:T",
    "pg_foreign_data_wrapper": "oid:o fdwname:t fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T",
    "pg_foreign_server": "oid:o srvname:t srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:T srvoptions:T",
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:T",
    "pg_index": "indexrelid:o indrelid:o indnatts:s indnkeyatts:s indisunique:b indisprimary:b indisexclusion:b "
    "indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:S "
    "indcollation:O indclass:O indoption:S indexprs:t indpred:t",
    "pg_indexes": "schemaname:t tablename:t indexname:t tablespace:t indexdef:t",
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_language": "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o "
    "lanacl:T",
    "pg_locks": "locktype:t database:o relation:o pid:i mode:t granted:b",
    "pg_matviews": "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b definition:t",
    "pg_namespace": "oid:o nspname:t nspowner:o nspacl:T",
    "pg_opclass": "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b "
    "opckeytype:o",
    "pg_operator": "oid:o oprname:t oprnamespace:o oprowner:o oprkind:t oprcanmerge:b oprcanhash:b oprleft:o "
    "oprright:o oprresult:o oprcom:o oprnegate:o oprcode:o oprrest:o oprjoin:o",
    "pg_partitioned_table": "partrelid:o partstrat:t partnatts:s partdefid:o partattrs:S partclass:O partcollation:O "
    "partexprs:t",
    "pg_policy": "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:O polqual:t polwithcheck:t",
    "pg_proc": "oid:o proname:t pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:o "
    "prokind:t prosecdef:b proleakproof:b proisstrict:b proretset:b provolatile:t proparallel:t pronargs:s "
    "pronargdefaults:s prorettype:o proargtypes:O proallargtypes:O proargmodes:T proargnames:T proargdefaults:t "
    "prosrc:t probin:t proconfig:T proacl:T",
    "pg_publication": "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b "
    "pubviaroot:b",
    "pg_publication_rel": "oid:o prpubid:o prrelid:o",
    "pg_publication_tables": "pubname:t schemaname:t tablename:t",
    "pg_range": "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:o rngsubdiff:o",
    "pg_rewrite": "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b ev_qual:t ev_action:t",
    "pg_roles": "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b "
    "rolconnlimit:i rolpassword:t rolvaliduntil:t rolbypassrls:b rolconfig:T",
    "pg_sequence": "seqrelid:o seqtypid:o seqstart:l seqincrement:l seqmax:l seqmin:l seqcache:l seqcycle:b",
    "pg_sequences": "schemaname:t sequencename:t sequenceowner:t data_type:t start_value:l min_value:l max_value:l "
    "increment_by:l cycle:b cache_size:l last_value:l",
    "pg_settings": "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t "
    "min_val:t max_val:t enumvals:T boot_val:t reset_val:t sourcefile:t sourceline:i pending_restart:b",
    "pg_shdescription": "objoid:o classoid:o description:t",
    "pg_stat_activity": "datid:o datname:t pid:i usesysid:o usename:t application_name:t state:t query:t "
    "backend_type:t",
    "pg_stat_user_tables": "relid:o schemaname:t relname:t n_live_tup:l n_dead_tup:l",
    "pg_statio_user_tables": "relid:o schemaname:t relname:t",
    "pg_statistic_ext": "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:S stxkind:T "
    "stxexprs:t",
    "pg_stats": "schemaname:t tablename:t attname:t null_frac:f avg_width:i n_distinct:f",
    "pg_subscription": "oid:o subdbid:o subname:t subowner:o subenabled:b",
    "pg_tables": "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b "
    "rowsecurity:b",
    "pg_tablespace": "oid:o spcname:t spcowner:o spcacl:T spcoptions:T",
    "pg_timezone_names": "name:t abbrev:t utc_offset:t is_dst:b",
    "pg_trigger": "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:s tgenabled:t tgisinternal:b tgconstrrelid:o "
    "tgconstrindid:o tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:s tgattr:S tgargs:t tgqual:t "
    "tgoldtable:t tgnewtable:t",
    "pg_ts_config": "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o",
    "pg_type": "oid:o typname:t typnamespace:o typowner:o typlen:s typbyval:b typtype:t typcategory:t "
    "typispreferred:b typisdefined:b typdelim:t typrelid:o typsubscript:o typelem:o typarray:o typinput:o "
    "typoutput:o typreceive:o typsend:o typmodin:o typmodout:o typanalyze:o typalign:t typstorage:t typnotnull:b "
    "typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:T",
    "pg_user": "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:t useconfig:T",
    "pg_views": "schemaname:t viewname:t viewowner:t definition:t",
}
"""Columns of each table of `pg_catalog`, with a letter for their type."""

INFORMATION_SCHEMA = {
    "tables": "table_catalog:t table_schema:t table_name:t table_type:t self_referencing_column_name:t "
    "reference_generation:t user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t "
    "is_insertable_into:t is_typed:t commit_action:t",
    "columns": "table_catalog:t table_schema:t table_name:t column_name:t ordinal_position:i column_default:t "
    "is_nullable:t data_type:t character_maximum_length:i character_octet_length:i numeric_precision:i "
    "numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:t interval_precision:i "
    "character_set_name:t collation_name:t domain_name:t udt_catalog:t udt_schema:t udt_name:t is_identity:t "
    "identity_generation:t is_generated:t generation_expression:t is_updatable:t",
    "schemata": "catalog_name:t schema_name:t schema_owner:t default_character_set_catalog:t "
    "default_character_set_schema:t default_character_set_name:t sql_path:t",
    "views": "table_catalog:t table_schema:t table_name:t view_definition:t check_option:t is_updatable:t "
    "is_insertable_into:t",
    "table_constraints": "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t "
    "table_name:t constraint_type:t is_deferrable:t initially_deferred:t enforced:t",
    "key_column_usage": "constraint_catalog:t constraint_schema:t constraint_name:t table_catalog:t table_schema:t "
    "table_name:t column_name:t ordinal_position:i position_in_unique_constraint:i",
    "constraint_column_usage": "table_catalog:t table_schema:t table_name:t column_name:t constraint_catalog:t "
    "constraint_schema:t constraint_name:t",
    "referential_constraints": "constraint_catalog:t constraint_schema:t constraint_name:t "
    "unique_constraint_catalog:t unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t "
    "delete_rule:t",
    "table_privileges": "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t "
    "is_grantable:t with_hierarchy:t",
    "role_table_grants": "grantor:t grantee:t table_catalog:t table_schema:t table_name:t privilege_type:t "
    "is_grantable:t with_hierarchy:t",
    "column_privileges": "grantor:t grantee:t table_catalog:t table_schema:t table_name:t column_name:t "
    "privilege_type:t is_grantable:t",
    "routines": "specific_catalog:t specific_schema:t specific_name:t routine_catalog:t routine_schema:t "
    "routine_name:t routine_type:t data_type:t",
    "parameters": "specific_catalog:t specific_schema:t specific_name:t ordinal_position:i parameter_mode:t "
    "parameter_name:t data_type:t",
    "sequences": "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t start_value:t minimum_value:t "
    "maximum_value:t increment:t cycle_option:t",
    "triggers": "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t event_object_schema:t "
    "event_object_table:t action_statement:t action_timing:t",
    "information_schema_catalog_name": "catalog_name:t",
    "applicable_roles": "grantee:t role_name:t is_grantable:t",
    "enabled_roles": "role_name:t",
    "character_sets": "character_set_catalog:t character_set_schema:t character_set_name:t character_repertoire:t "
    "form_of_use:t default_collate_catalog:t default_collate_schema:t default_collate_name:t",
}

_NAMESPACES = {"pg_catalog": 11, "public": 2200, "information_schema": 13000}
_PRECISION = {INT8.oid: (64, 2, 0), FLOAT8.oid: (53, 2, None)}


def definitions(schema: str, tables: Mapping[str, str]) -> Iterator[str]:
    """CREATE TABLE for each."""
    for name, columns in tables.items():
        listed = ", ".join(f'"{n}" {_TYPES[kind]}' for n, _, kind in (c.partition(":") for c in columns.split()))
        yield f"CREATE TABLE {schema}.{name} ({listed})"


def contents(domains: Mapping[str, Domain], titles: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the tables that have some: table and values by column."""
    for name, oid in _NAMESPACES.items():
        yield "pgc.pg_namespace", {"oid": oid, "nspname": name, "nspowner": OWNER}
        yield (
            "info.schemata",
            {"catalog_name": DATABASE, "schema_name": name, "schema_owner": DATABASE},
        )
    yield (
        "pgc.pg_database",
        {
            "oid": 16000,
            "datname": DATABASE,
            "datdba": OWNER,
            "encoding": 6,
            "datcollate": "C",
            "datctype": "C",
            "datistemplate": False,
            "datallowconn": True,
            "datconnlimit": -1,
            "dattablespace": 1663,
        },
    )
    role = {"oid": OWNER, "rolname": DATABASE, "rolsuper": False, "rolinherit": True, "rolcreaterole": False}
    yield (
        "pgc.pg_roles",
        role | {"rolcreatedb": False, "rolcanlogin": False, "rolreplication": False, "rolconnlimit": -1},
    )
    yield "pgc.pg_am", {"oid": 2, "amname": "heap", "amtype": "t"}
    yield "pgc.pg_tablespace", {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}
    collation = {"collnamespace": 11, "collowner": OWNER, "collprovider": "d", "collencoding": -1}
    yield "pgc.pg_collation", collation | {"oid": 100, "collname": "default", "collisdeterministic": True}
    yield "info.information_schema_catalog_name", {"catalog_name": DATABASE}
    yield "info.character_sets", {"character_set_name": "UTF8", "character_repertoire": "UCS", "form_of_use": "UTF8"}
    yield "pgc.pg_settings", {"name": "server_version", "setting": SERVER_VERSION}
    yield "pgc.pg_settings", {"name": "max_index_keys", "setting": "32"}
    yield from type_rows()
    for place, (name, domain) in enumerate(domains.items()):
        oid = FIRST_TABLE + 4 * place
        yield from _table_rows(oid, name, domain, titles.get(name, ""))
        if f"{name}{SYNTHETIC}" not in domains:
            told = f"Synthetic rows: drawn from what is published about {name}, none of them a record"
            yield from _table_rows(oid + 2, f"{name}{SYNTHETIC}", domain, told, view=True)


def _table_rows(
    oid: int, name: str, domain: Domain, title: str, *, view: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A table, or the view of its synthetic rows."""
    named = {"table_catalog": DATABASE, "table_schema": "public", "table_name": name}
    yield (
        "pgc.pg_class",
        {
            "oid": oid,
            "relname": name,
            "relnamespace": 2200,
            "reltype": oid + 1,
            "reloftype": 0,
            "relowner": OWNER,
            "relam": 2,
            "relfilenode": oid,
            "reltablespace": 0,
            "relpages": 0,
            "reltuples": -1,
            "relallvisible": 0,
            "reltoastrelid": 0,
            "relhasindex": False,
            "relisshared": False,
            "relpersistence": "p",
            "relkind": "v" if view else "r",
            "relnatts": len(domain),
            "relchecks": 0,
            "relhasrules": False,
            "relhastriggers": False,
            "relhassubclass": False,
            "relrowsecurity": False,
            "relhasoids": False,
            "relforcerowsecurity": False,
            "relispopulated": True,
            "relreplident": "d",
            "relispartition": False,
        },
    )
    kind = "VIEW" if view else "BASE TABLE"
    yield "info.tables", named | {"table_type": kind, "is_insertable_into": "NO", "is_typed": "NO"}
    if view:
        yield "pgc.pg_views", {"schemaname": "public", "viewname": name, "viewowner": DATABASE, "definition": ""}
        yield "info.views", named | {"check_option": "NONE", "is_updatable": "NO", "is_insertable_into": "NO"}
    else:
        owned = {"schemaname": "public", "tablename": name, "tableowner": DATABASE, "hasindexes": False}
        yield "pgc.pg_tables", owned | {"hasrules": False, "hastriggers": False, "rowsecurity": False}
        yield "pgc.pg_stat_user_tables", {"relid": oid, "schemaname": "public", "relname": name, "n_live_tup": 0}
    granted = {"grantor": DATABASE, "grantee": "PUBLIC", "privilege_type": "SELECT", "is_grantable": "NO"}
    for table in ("table_privileges", "role_table_grants"):
        yield f"info.{table}", named | granted
    if title:
        yield "pgc.pg_description", {"objoid": oid, "classoid": 1259, "objsubid": 0, "description": title}
    for place, (column, attribute) in enumerate(domain.items(), start=1):
        kind = column_type(attribute)
        yield "pgc.pg_attribute", _attribute(oid, place, column, kind, attribute.nullable)
        yield "info.columns", named | _column(place, column, kind, attribute.nullable)
        described = f"{attribute.known} public {'bins' if attribute.type == 'numeric' else 'values'}"
        row = {"objoid": oid, "classoid": 1259, "objsubid": place, "description": described}
        yield "pgc.pg_description", row


def _attribute(table: int, place: int, name: str, kind: WireType, nullable: bool) -> dict[str, Any]:
    return {
        "attrelid": table,
        "attname": name,
        "atttypid": kind.oid,
        "attstattarget": -1,
        "attlen": kind.length,
        "attnum": place,
        "attndims": 0,
        "attcacheoff": -1,
        "atttypmod": -1,
        "attbyval": 0 < kind.length <= 8,
        "attstorage": "p",
        "attalign": "i",
        "attnotnull": not nullable,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": 100 if kind is TEXT else 0,
        "attcompression": "",
    }


def _column(place: int, name: str, kind: WireType, nullable: bool) -> dict[str, Any]:
    precision, radix, scale = _PRECISION.get(kind.oid, (None, None, None))
    return {
        "column_name": name,
        "ordinal_position": place,
        "is_nullable": "YES" if nullable else "NO",
        "data_type": SQL_NAMES[kind.oid],
        "numeric_precision": precision,
        "numeric_precision_radix": radix,
        "numeric_scale": scale,
        "udt_catalog": DATABASE,
        "udt_schema": "pg_catalog",
        "udt_name": SHORT_NAMES[kind.oid],
        "datetime_precision": {DATE.oid: 0, TIMESTAMP.oid: 6}.get(kind.oid),
        "is_identity": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
    }


MACROS = f"""
CREATE MACRO pgc.version() AS 'PostgreSQL {SERVER_VERSION}';
CREATE MACRO pgc.current_database() AS '{DATABASE}';
CREATE MACRO pgc.current_catalog() AS '{DATABASE}';
CREATE MACRO pgc.current_schema() AS 'public';
CREATE MACRO pgc.current_schemas(implicit) AS (CASE WHEN implicit THEN ['pg_catalog', 'public'] ELSE ['public'] END);
CREATE MACRO pgc.format_type(kind, modifier) AS (
  CASE {" ".join(f"WHEN kind = {oid} THEN '{name}'" for oid, name in SQL_NAMES.items())}
  {" ".join(f"WHEN kind = {array} THEN '{SQL_NAMES[oid]}[]'" for oid, array in TYPE_ARRAYS.items())}
  WHEN kind IS NULL THEN NULL ELSE '???' END);
CREATE MACRO pgc.pg_get_userbyid(owner) AS '{DATABASE}';
CREATE MACRO pgc.quote_ident(name) AS '"' || replace(name, '"', '""') || '"';
CREATE MACRO pgc.quote_literal(name) AS '''' || replace(name, '''', '''''') || '''';
CREATE MACRO pgc.pg_encoding_to_char(number) AS 'UTF8';
CREATE MACRO pgc.pg_client_encoding() AS 'UTF8';
CREATE MACRO pgc.pg_char_to_encoding(name) AS 6;
CREATE MACRO pgc.pg_conversion_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_ts_config_is_visible(a) AS TRUE;
CREATE MACRO pgc.array_remove(a, b) AS list_filter(a, lambda x: x <> b);
CREATE MACRO pgc.pg_get_keywords() AS TABLE SELECT keyword_name AS word FROM duckdb_keywords();
CREATE MACRO pgc._pg_expandarray(a) AS {{'x': NULL::SMALLINT, 'n': NULL::INTEGER}};
CREATE MACRO pgc.pg_is_in_recovery() AS FALSE;
CREATE MACRO pgc.pg_postmaster_start_time() AS NULL;
CREATE MACRO pgc.now() AS get_current_timestamp()::TIMESTAMP;
CREATE MACRO pgc.clock_timestamp() AS get_current_timestamp()::TIMESTAMP;
CREATE MACRO pgc.statement_timestamp() AS get_current_timestamp()::TIMESTAMP;
CREATE MACRO pgc.transaction_timestamp() AS get_current_timestamp()::TIMESTAMP;
CREATE MACRO pgc.pg_backend_pid() AS 1;
CREATE MACRO pgc.txid_current() AS 1;
CREATE MACRO pgc.pg_relation_size(a) AS 0::BIGINT;
CREATE MACRO pgc.pg_table_size(a) AS 0::BIGINT;
CREATE MACRO pgc.pg_total_relation_size(a) AS 0::BIGINT;
CREATE MACRO pgc.pg_database_size(a) AS 0::BIGINT;
CREATE MACRO pgc.pg_size_pretty(a) AS '0 bytes';
CREATE MACRO pgc.pg_relation_is_publishable(a) AS FALSE;
CREATE MACRO pgc.pg_get_statisticsobjdef_columns(a) AS '';
CREATE MACRO pgc.pg_tablespace_location(a) AS '';
CREATE MACRO pgc.pg_tablespace_size(a) AS 0::BIGINT;
CREATE MACRO pgc.pg_get_serial_sequence(a, b) AS NULL;
CREATE MACRO pgc.pg_get_partkeydef(a) AS '';
CREATE MACRO pgc.pg_get_triggerdef(a) AS '', (a, b) AS '';
CREATE MACRO pgc.pg_get_ruledef(a) AS '', (a, b) AS '';
CREATE MACRO pgc.pg_get_indexdef(a) AS '', (a, b, c) AS '';
CREATE MACRO pgc.pg_get_constraintdef(a) AS '', (a, b) AS '';
CREATE MACRO pgc.pg_get_viewdef(a) AS '', (a, b) AS '';
CREATE MACRO pgc.pg_get_functiondef(a) AS '';
CREATE MACRO pgc.pg_get_function_result(a) AS '';
CREATE MACRO pgc.pg_get_function_arguments(a) AS '';
CREATE MACRO pgc.pg_get_function_identity_arguments(a) AS '';
CREATE MACRO pgc.pg_get_expr(a, b) AS a, (a, b, c) AS a;
CREATE MACRO pgc.pg_table_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_type_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_function_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_operator_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_opclass_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_collation_is_visible(a) AS TRUE;
CREATE MACRO pgc.pg_statistics_obj_is_visible(a) AS TRUE;
CREATE MACRO pgc.has_table_privilege(a, b) AS TRUE, (a, b, c) AS (lower(c) = 'select');
CREATE MACRO pgc.has_any_column_privilege(a, b) AS TRUE, (a, b, c) AS (lower(c) = 'select');
CREATE MACRO pgc.has_column_privilege(a, b, c) AS TRUE, (a, b, c, d) AS TRUE;
CREATE MACRO pgc.has_schema_privilege(a, b) AS (lower(b) = 'usage'), (a, b, c) AS (lower(c) = 'usage');
CREATE MACRO pgc.has_database_privilege(a, b) AS (lower(b) = 'connect'), (a, b, c) AS (lower(c) = 'connect');
CREATE MACRO pgc.has_function_privilege(a, b) AS FALSE, (a, b, c) AS FALSE;
CREATE MACRO pgc.pg_has_role(a, b) AS TRUE, (a, b, c) AS TRUE;
CREATE MACRO pgc.pg_my_temp_schema() AS 0;
CREATE MACRO pgc.pg_is_other_temp_schema(a) AS FALSE;
CREATE MACRO pgc.inet_server_addr() AS NULL;
CREATE MACRO pgc.inet_server_port() AS NULL;
CREATE MACRO pgc.set_config(a, b, c) AS b;
CREATE MACRO pgc.current_setting(a) AS (SELECT any_value(setting) FROM pgc.pg_settings WHERE name = lower(a)),
  (a, b) AS (SELECT any_value(setting) FROM pgc.pg_settings WHERE name = lower(a));
CREATE MACRO pgc.col_description(a, b) AS (
  SELECT any_value(description) FROM pgc.pg_description WHERE objoid = a AND objsubid = b);
CREATE MACRO pgc.obj_description(a) AS NULL,
  (a, b) AS (SELECT any_value(description) FROM pgc.pg_description WHERE objoid = a AND objsubid = 0);
CREATE MACRO pgc.shobj_description(a, b) AS NULL;
CREATE MACRO pgc.to_regclass(a) AS (SELECT any_value(oid) FROM pgc.pg_class WHERE relname = a);
CREATE MACRO pgc.to_regtype(a) AS (SELECT any_value(oid) FROM pgc.pg_type WHERE typname = a);
CREATE MACRO pgc.to_regnamespace(a) AS (SELECT any_value(oid) FROM pgc.pg_namespace WHERE nspname = a);
CREATE MACRO pgc.regtype_name(a) AS format_type(a, -1);
CREATE MACRO pgc.regclass_name(a) AS coalesce((SELECT any_value(relname) FROM pgc.pg_class WHERE oid = a), a::VARCHAR);
CREATE MACRO pgc.regproc_name(routine) AS (
  CASE {" ".join(f"WHEN routine = {oid} THEN '{name}'" for oid, name in ROUTINES.items())}
  WHEN routine = 0 THEN '-' ELSE routine::VARCHAR END);
CREATE MACRO pgc.array_lower(a, b) AS 1;
CREATE MACRO pgc.array_upper(a, b) AS len(a);
"""
"""Functions that clients call; built-in ones with the same name mean the same."""

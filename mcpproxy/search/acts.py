"""What people ask to be done, as a verb and its object: many of each mean one act of tools.

`/` stands between words of which each will do, so that one line says what a class of verbs does to a class
of things.
"""

from __future__ import annotations

ACTS = """
    read file: show/print/display/view/see/load/open/get content/contents/text/lines/inside file/document
    write file: save/write/store/dump/put text/content/output/result/notes/disk/file
    write, append: add/write/append end/bottom
    list directory: what/which/show/see/all/list files/folders/contents
    create directory: new/make/create/add folder/folders/dir
    move file, rename: change/give/another/other/different name/names
    search files: files/file called/named/containing/contain/contains/matching/extension
    delete file: remove/delete/erase file/files
    size: how/biggest/largest/smallest big/large/size
    read multiple files: several/many/multiple/all/these/both/two/three files/documents

    create issue: raise/file/log/submit/report/write bug/issue/ticket/defect/incident/problem/story
    create issue: open a/another issue/bug/ticket/defect/incident
    create pull request, create merge request: raise/submit/propose/start/make pr/mr/pull/merge
    create pull request, create merge request: open a/another pr/mr/pull/merge
    update issue: close/reopen/resolve/triage/assign/relabel/label issue/ticket/bug/defect
    add comment, comment: comment/remark/answer/reply/respond/note on/issue/ticket/bug/discussion
    merge: combine/join/unite/fold/integrate/bring branch/branches/feature/features/lines
    merge pull request: accept/land/merge pr/pull/mr/contribution
    pull request review: approve/reject/review/judge pr/pull/mr/changes/contribution
    pull request status: did/has/have/is/are ci/checks/build/tests/pipeline
    pull request status: ci/checks/build/tests/pipeline pass/passed/green/fail/failed/succeed
    pull request files: files/what changed/touched/modified/affected pr/pull/mr
    search repositories: projects/repositories/repos/libraries about/for
    create repository: new/make/start/create/set repo/project/repository
    update branch, update: bring/get/keep/up date/sync/current
    fork repository: copy/duplicate/own repo/repository/project

    git: version/source/revision control/history
    commit: save/record/store/checkpoint work/progress/changes/state/edits
    status, diff staged: ready/about/going/goes/prepared commit/committed
    push: share/upload/send/publish/transfer work/commits/changes/branch/origin/remote
    pull, fetch: get/bring/download/receive changes/commits/updates/newest/latest remote/colleagues/others/team/upstream
    list branches, branch: which/what/show/list/all branches
    checkout, switch branch: switch/change/jump/move/go/hop branch/branches
    create branch: new/create/start/make/begin branch
    reset: undo/revert/unmake/cancel commit/commits
    log: history/list/who commits/commit/changes/repository/codebase
    diff: what/which/see/show/list changed/edits/edited/modified/differences
    blame: who/whose wrote/changed/line/lines/edited
    tag: mark/name/label commit/release/version
    clone: download/copy/get/fetch repository/repo/codebase
    stash: put/set/save/hide/keep aside/away/unfinished/temporarily/shelf
    clean: delete/remove/clean/clear untracked/junk/leftovers

    click: press/push/hit/tap/activate/click/use button/link/icon/element/switch
    type: write/enter/type/put/key text/name/password/email/query/search
    fill form: complete/fill/submit/enter form/fields/registration/details/application/checkout
    navigate: go/visit/open/browse/surf/load/enter/call site/website/url/address/homepage/web
    reload, navigate: reload/refresh page/site/tab/browser
    screenshot: picture/photo/image/shot/snap/capture/grab page/site/website/screen/tab/browser/looks/look
    screenshot: look/looks/appears like
    close page: close/shut/quit/leave tab/page/browser/window
    select option: choose/pick/select dropdown/list/menu/option/options
    wait: pause/hold/wait until/till/appears/gone/disappears/loaded/finished
    console messages: errors/warnings/messages/logged page/browser/javascript/console
    network requests: which/what/all/list/see requests/calls/traffic/apis
    network request: body/headers/answer/payload/reply request/response/xhr/call
    resize: change/set/make window/viewport/wider/narrower/taller/width/height
    evaluate script: run/execute/evaluate js/javascript/snippet/expression
    performance trace: why/how/measure/find slow/fast/speed/performance/loading/load
    lighthouse audit: search engine/engines
    lighthouse audit: audit/check/rate/score/quality/optimised/optimized page/site/website/seo
    accessibility: accessible/usable site/website/page/blind/everyone/disabled
    heap snapshot: memory/leak/leaks page/tab/browser
    emulate: act/behave/look/pretend/pose like/as/on phone/mobile/tablet/device
    file upload: attach/upload/choose/add/send file/document/picture/photo/attachment
    handle dialog: accept/dismiss/confirm/answer/close dialog/popup/alert/prompt
    css styles: which/what/why css/style/styles/rule/rules/colour/color/font

    query, sql: ask/query/question/look/search database/warehouse/db/table
    query, sql: how/count many/much/number rows/records/orders/customers/users/sales/invoices/purchases/entries
    database, sql: data/analytics warehouse/mart/lake
    write query: insert/add/update/change/delete/remove/store row/rows/record/records/entry/entries/customer/order
    describe table, list columns: columns/fields/structure/layout/shape table
    list tables: tables/what/which/show exist/tables
    create table: new/make/create/add/define table

    kubectl get: which/what/list/show/see pods/services/nodes/deployments/namespaces
    logs: log/logs/output/stdout/print/prints/printed pod/container/deployment/service
    logs, describe: why pod/container/deployment/restarting/crashing/pending/failing/fails
    exec pod: run/execute/shell/command/open/inside pod/container
    delete: remove/delete/drop/destroy/tear pod/deployment/service/namespace/resource
    rollout: restart/bounce/cycle/recycle/undo/revert/rollback deployment/pods/service/release
    scale: more/fewer/increase/decrease/reduce/double/add pods/replicas/instances/copies/workers
    apply: put/apply/load/install/bring/deploy yaml/manifest/config/effect
    context: switch/change/use/other/another/current cluster/clusters
    port forward: reach/access/open/expose/forward/connect port/locally/localhost/laptop
    stop port forward: close/stop/end tunnel/forward/forwarding
    api resources: kinds/types/sorts resources/objects
    uninstall: remove/delete/drop/uninstall/take app/application/program/package/software/chart
    install: put/set/install/add/deploy chart/package/application
    upgrade: upgrade/update/newer/bump chart/package/release/version
    node: take/put/out node/nodes/service/maintenance

    post message: tell/inform/notify/ping/message/alert/write/announce team/everyone/colleagues/channel/group/people/all
    reply: answer/respond/reply/react thread/post/conversation/question
    channel history: read/see/catch/show/last messages/said/conversation/discussion/chat
    list channels: which/what/list/all/where channels/rooms/groups/post
    users: who/all/list/find/which people/members/team/colleagues/workspace

    create page: write/start/add/make/new/create document/doc/page/article
    append block: add/append/insert/write text/paragraph/bullet/bullets/list/section/heading document/page/end/bottom
    retrieve page: read/show/get/see/open text/content/contents document/page
    query data source: filter/sort/find/list/query rows/entries/items/records/tasks/database
    update page: trash/archive/retire/rename/delete page/document

    search web: find/search/look/google/check internet/online/web
    search web: latest/recent/current/newest/today news/headlines/prices/price/results/developments/events
    search web: news/headline/headlines/rumours/facts about/on
    fetch, scrape, extract: get/grab/pull/take/copy/download/read text/content/article/page/site/url/link/website
    fetch, scrape, navigate: web page/site/address
    crawl: follow/visit/walk/collect/read every/all/each link/links/page/pages
    map: all/every/list link/links/urls/addresses/reachable
    monitor: tell/alert/notify/warn/email/ping/inform me/us when/if/whenever/once/soon
    monitor: watch/track/observe/follow change/changes/page/price/site
    delete monitor: stop/end/quit watching/monitoring/tracking
    research: thorough/detailed/deep/in report/research/study/analysis/dive
    papers: scientific/scholarly/academic/research paper/papers/work/article/articles/study/studies/literature
    related papers: papers/works/articles cite/cites/citing/similar/related
    parse: convert/turn/read/extract word/docx/pdf/document markdown/text
    crawl status: has/is/did/check crawl/job finished/done/ready/complete

    add observations: remember/note/memorise/memorize/store/keep that/mind
    delete entities: forget/erase/remove/drop/delete person/contact/about/entity
    read graph, search nodes: you/already/have know/remember/stored/learned/memorised/memorized
    read graph, search nodes: everything/all/what know/remember/stored/memory/remembered
    create relations: link/connect/relate/tie together/entities/people/each
    thinking: think/work/go/solve/reason through/step/problem/carefully

    start process: run/execute/launch/start/invoke command/script/program/server/tests/test/build/app/shell/terminal
    kill process: stop/end/kill/quit/terminate/close process/program/app/task/pid
    list processes: what/which/list/show/see/all running/processes/programs/apps
    process output: see/read/show/check/what output/printed/prints/result process/program/command/terminal
    interact process: send/type/feed/give/enter/write input/text/line/answer process/program/prompt/shell/repl
    system info: how/what/which much/memory/ram/cpu/cores/os computer/machine/laptop/server/pc
    config: change/set/adjust/edit setting/settings/preference/option/configuration

    chart: draw/plot/visualise/visualize/graph/picture data/numbers/figures/values
    pie chart: share/part/portion/proportion/percentage each/whole/total/per
    bar chart, column chart: compare/comparison/versus/sales categories/category/products/regions
    line chart: over/per/by time/month/months/year/years/day/days/week/weeks/quarter
    scatter chart: relationship/connection/link/correlation/dependence between/two
    scatter chart: does/do/is go/depend/grow/correlate/rise along/with/together
    histogram: distribution/spread/frequency of/values/ages/data
    waterfall chart: up/ups/rise/rises/increase/increases/gain/plus and down/downs/fall/falls/decrease/decreases/loss/minus
    sankey chart: where money/energy/traffic/visitors goes/go/flows/come
    venn chart: overlap/common/shared/intersection/both between/groups/sets/lists
    organization chart: who/reporting/report/reports manager/managers/lines/boss/whom/structure
    network graph: who/how connected/knows/linked/connection/connections whom/each/people/other
    flow diagram: steps/stages/process/decisions in/of/procedure/workflow/approval
    path map: route/trip/journey/tour/way/itinerary map/drawn/show/from/through
    pin map: mark/show/put/place/locate shops/stores/places/offices/cities/branches/locations map/on
    liquid chart: how/percentage/level full/filled/reached
    radar chart: skills/abilities/criteria/dimensions/qualities/strengths several/along/compare/profile

    current time: what/which/tell/current/local time/clock
    convert time: time/noon/clock/hour/hours when/in/other/difference
    calculate: work/compute/add/figure out/sum/total/percent/divided/times
    compress: make/smaller/pack/zip/compress file/files
    lint: check/find style/violations/errors/mistakes code/source
    documentation: how/use/usage/examples/docs/manual library/package/framework/api
    create pdf, write pdf: make/create/produce/generate/export/save/turn pdf
    display pdf: show/open/view/look/display pdf/contract
"""
"""Each line: what tools call it, the likeliest first, and verbs and objects of people."""

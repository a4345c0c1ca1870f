// The half of the page's script that explains numbers.
#include "suite/report/html_parts.h"

namespace benchsuite::html {

std::string_view number_script() {
  return R"js(
(()=>{'use strict';
const data=JSON.parse(document.getElementById('numbers').textContent),dialog=document.getElementById('why');
const make=(tag,text,kind)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;
if(kind)e.className=kind;return e};
const significant=(x,digits)=>{const a=Math.abs(x);if(x===0)return'0';if(a>=1e15||a<1e-5)return x.toExponential(digits-1);
const n=Number(x.toPrecision(digits));return a>=1000?n.toLocaleString('en',{maximumFractionDigits:3}):String(n)};
const show=(x,unit)=>{if(x===null||x===undefined)return'none';if(typeof x!=='number')return String(x);
const digits=7;if(unit==='share'||unit==='')return significant(x,digits)+(unit==='share'?' = '+significant(x*100,4)+' %':'');
if(unit==='B'||unit==='bytes')return x.toLocaleString('en',{maximumFractionDigits:0})+' B'+
(x>=1048576?' = '+significant(x/1073741824,4)+' GiB':'');
if(unit.startsWith('FLOP')&&Math.abs(x)>=1e12)return significant(x/1e12,digits)+' T'+unit;
if(unit==='1')return significant(x,digits);if(unit==='x')return significant(x,digits)+' ×';
if(unit==='s'&&x!==0&&Math.abs(x)<1)return significant(x,digits)+' s = '+significant(x*1e3,4)+' ms';
return(unit==='ps'?x.toLocaleString('en'):significant(x,digits))+' '+unit};
// A fact: title, value, unit, formula, source, path in result.json, inputs [label, key or undefined, value, unit], text.
const of=(key,list)=>{const d=data.definitions[key]||[key,'','','',[]];
return{title:d[0],unit:d[1],formula:d[2],source:d[3],wanted:d[4],inputs:[],...list}};
function fact(key){const p=key.split('.'),c=data.cases[+p[0]],kind=p[1][0],i=+p[1].slice(1),root='cases['+p[0]+'].';
if(kind==='w'){const w=c.w[i],path=root+'waterfall['+i+'].',ends=[[w.from,endOf(p[0],c,w.from),w.from_s,'s'],
[w.to,endOf(p[0],c,w.to),w.to_s,'s']];
if(p[2]==='from'||p[2]==='to')return{title:'step time of '+w[p[2]],value:w[p[2]+'_s'],unit:'s',formula:'step time of the variant',
source:'timeline of the device',path:path+p[2]+'_s',inputs:[ends[p[2]==='to'?1:0]]};
const all=w.parts.map((x,j)=>[x[0],p[0]+'.w'+i+'.p'+j,x[1],'s']);
if(p[2]==='sum')return{title:'difference',value:w.to_s-w.from_s,unit:'s',formula:'step time of '+w.to+' − step time of '+w.from+
' = sum of the parts, exactly',source:'timelines of both variants',path:path+'parts',inputs:ends.concat(all)};
const part=w.parts[+p[2].slice(1)];return{title:part[0],value:part[1],unit:'s',formula:'mean time over the ranks in '+w.to+
' − in '+w.from,source:'timelines of both variants, by category; '+part[2],path:path+'parts['+p[2].slice(1)+'].seconds',inputs:ends}}
if(kind==='x'){const x=c.x[i];const range=r=>r[0]===null&&r[1]===null?'':r[0]===null?'≤ '+show(r[1],x.unit):r[1]===null?'≥ '+
show(r[0],x.unit):r[0]===r[1]?'= '+show(r[0],x.unit):show(r[0],x.unit)+' to '+show(r[1],x.unit);
return{title:x.title,id:x.id,value:x.value,unit:x.unit,formula:x.metric||'none stated',source:x.kind+': '+x.source,text:x.text,
path:root+'checks['+i+']',rows:[['verdict',x.verdict],['pass',range(x.pass)],['warn up to',range(x.warn)],
['target of the source',x.target===null?'':show(x.target,x.unit)]],inputs:named(p[0],c,x.metric)}}
const v=c.v[i],base=p[0]+'.v'+i+'.',path=root+'variants['+i+'].';
const about='variant '+v.id+', n = '+v.n+', device '+data.device+', profile '+v.hardware+', stack '+v.stack;
const from=(names)=>names.flatMap(name=>{
if(name==='peaks')return v.stages.map((s,j)=>['stage '+s.stage,base+'s'+j+'.peak_bytes',s.peak_bytes,'B']);
if(name.startsWith('k.'))return[[of(name).title,base+name,v.k[name.slice(2)]||0,'s']];
const x=v.values[name];return x===undefined||x===null?[]:[[name,data.definitions[name]?base+name:undefined,x,of(name).unit]]});
if(p[2][0]==='s'&&/^s\d+$/.test(p[2])){const n=+p[2].slice(1),s=v.stages[n],at=path+'stages['+n+'].';
if(p[3]==='k'){const f=of('k.'+p[4]);return{...f,value:s.k[p[4]]||0,unit:'s',path:at+'breakdown_ps.'+p[4],about:about+
', stage '+s.stage+' (rank '+s.rank+')',inputs:from(['iteration_s'])}}
const f=of(p[3]);let inputs=[];if(f.wanted[0]==='purposes')
inputs=Object.entries(s.by_purpose_bytes).map(([k,b])=>[k,undefined,b,'B']);
else inputs=f.wanted.map(k=>[k,base+p[2]+'.'+k,s[k],'B']);
return{...f,value:s[p[3]],path:at+(/bytes/.test(p[3])?'memory.':'')+p[3],inputs,about:about+', stage '+s.stage+' (rank '+s.rank+
')'}}
if(/^c\d+$/.test(p[2])){const n=+p[2].slice(1),m=v.comm[n],f=of(p[3]);return{...f,title:m.kind+': '+f.title,value:m[p[3]],
path:path+(/^rank_/.test(p[3])?'stages[*].sent':'communication['+n+'].'+p[3]),about,inputs:f.wanted.map(k=>[k,base+p[2]+'.'+k,m[k],of(k).unit])}}
if(p[2]==='k')return{...of('k.'+p[3]),value:v.k[p[3]]||0,unit:'s',path:path+'breakdown.mean_s.'+p[3],about,
inputs:from(['iteration_s'])};
const f=of(p[2]);if(p[2]==='flops_model'||p[2]==='flops_hardware')f.source+='; formula '+v.flops;
if(p[2]==='peak_flops'||p[2]==='capacity_gib')f.source='cases/hardware/'+v.hardware+'.json, from the datasheet it names'+
(p[2]==='peak_flops'?'; '+v.precision:'');
return{...f,value:v.values[p[2]],path:path+({flops_model:'flops.model',flops_hardware:'flops.hardware'}[p[2]]||p[2]),about,
inputs:from(f.wanted)}}
function endOf(c,k,id){const n=k.v.findIndex(v=>v.id===id);return n<0?undefined:c+'.v'+n+'.iteration_s'}
// The metrics that a check's expression names.
function named(c,k,text){const found=[];k.v.forEach((v,n)=>{let at=-1;const word=v.id+'.';
while((at=text.indexOf(word,at+1))>=0){if(at>0&&/[A-Za-z0-9_.-]/.test(text[at-1]))continue;
const rest=text.slice(at+word.length),metric=/^[a-z_]+/.exec(rest);if(!metric)continue;let key,value,unit;
const base=c+'.v'+n+'.',tail=rest.slice(metric[0].length),m=metric[0];
if(/^(rank_)?communication_/.test(m)){const j=v.comm.findIndex(x=>tail.startsWith('.'+x.kind)&&!tail.startsWith('.'+x.kind+
' (')),field={communication_bytes:'bytes',communication_bytes_formula:'expected_bytes',communication_exposed_s:'exposed_s',
communication_hidden_s:'hidden_s',communication_calls:'calls',rank_communication_bytes:'rank_bytes',
rank_communication_bytes_formula:'rank_expected_bytes'}[m];if(j>=0&&field){key=base+'c'+j+'.'+field;value=v.comm[j][field];
unit=of(field).unit}}
else{const stage=/^\.(\d+)/.exec(tail),field={saved_activation_bytes:'saved_bytes',saved_activation_formula_bytes:
'saved_formula_bytes',peak_memory_gib:'peak_bytes',peak_in_flight:'peak_in_flight'}[m];
if(stage&&field){const j=v.stages.findIndex(s=>s.stage===+stage[1]);if(j>=0){key=base+'s'+j+'.'+field;value=v.stages[j][field];
unit=of(field).unit}}else if(v.values[m]!==undefined){key=base+m;value=v.values[m];unit=of(m).unit}}
if(key&&!found.some(x=>x[1]===key))found.push([key?text.substr(at,word.length+m.length+(key.includes('.c')||/\.s\d/.test(key)?
/^(\.[^/*+,()=]*(\([a-z]+\))?)?/.exec(tail)[0].trimEnd().length:0)):'',key,value,unit])}});return found}
function open(key,trail){const f=fact(key);dialog.textContent='';const head=make('header');
if(trail.length){const back=make('button','‹ back','back');back.onclick=()=>open(trail[trail.length-1],trail.slice(0,-1));
head.append(back)}
const close=make('button','close','close');close.onclick=()=>dialog.close();head.append(close);dialog.append(head);
dialog.append(make('h4',f.title),make('p',show(f.value,f.unit),'value'));
const list=make('dl'),row=(name,text,kind)=>{if(!text)return;list.append(make('dt',name),make('dd',text,kind))};
row('formula',f.formula,'mono');(f.rows||[]).forEach(([a,b])=>row(a,b));dialog.append(list);
if(f.inputs.length){list.append(make('dt','inputs'));const cell=make('dd'),table=make('table');
f.inputs.forEach(([label,k,x,unit])=>{const tr=make('tr'),value=make('td');tr.append(make('td',label,'l mono'));
if(k&&k!==key){const b=make('button',show(x,unit));b.dataset.q=k;b.dataset.from=key;value.append(b)}
else value.textContent=show(x,unit);tr.append(value);table.append(tr)});cell.append(table);list.append(cell)}
row('source',f.source);row('note',f.text);row('id',f.id,'mono');row('of',f.about);row('in result.json',f.path,'mono');
dialog.trail=trail;if(!dialog.open)dialog.showModal();dialog.scrollTop=0}
document.addEventListener('click',event=>{const at=event.target.closest&&event.target.closest('[data-q]');
if(at){open(at.dataset.q,at.dataset.from?dialog.trail.concat(at.dataset.from):[]);return}
if(event.target===dialog)dialog.close()});
})();
)js";
}

}  // namespace benchsuite::html
